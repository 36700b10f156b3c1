//go:build !unix

package main

import (
	"flag"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
)

func hook()          {}
func settleProcess() {}

// What needs an engine, which there is none of.
var (
	runDoctor, testEngine = none, none
	runCommand, runShell  = none, none

	reviewApply, reviewDiff, reviewDiscard = none, none, none
	reviewList, reviewShow, reviewUndo     = none, none, none
)

func none(*cli.App, *flag.FlagSet) func() error { return nil }
func reviewNames(*cli.App) []string             { return nil }
