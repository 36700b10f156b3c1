//go:build !unix

package review

import (
	"flag"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
)

// These need an engine, which there is none of.
func Apply(*cli.App, *flag.FlagSet) func() error   { return nil }
func Diff(*cli.App, *flag.FlagSet) func() error    { return nil }
func Discard(*cli.App, *flag.FlagSet) func() error { return nil }
func List(*cli.App, *flag.FlagSet) func() error    { return nil }
func Show(*cli.App, *flag.FlagSet) func() error    { return nil }
func Undo(*cli.App, *flag.FlagSet) func() error    { return nil }

func Names(*cli.App) []string { return nil }
