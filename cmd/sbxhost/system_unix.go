//go:build unix

package main

import (
	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/doctor"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/engines"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/execute"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/review"
	"github.com/sbxhost/sbxhost/shared/enginetest"
	"github.com/sbxhost/sbxhost/shared/proc"
)

// hook does not return inside a sandbox that is tested: there, this program is what runs.
func hook() { enginetest.Hook() }

func settleProcess() {
	// What the caller has open is nobody else's: engines in other languages would
	// inherit it, and pass it on to their commands.
	_ = proc.CloseOnExecFrom(3)
	// One that takes rights from the owner, too, makes directories that their owner cannot use:
	// those of a session stayed behind.
	unix.Umask(unix.Umask(0o077) & 0o077)
}

// What needs an engine.
var (
	runDoctor, testEngine = doctor.Command, engines.Test
	runCommand, runShell  = execute.Exec, execute.Shell

	reviewApply, reviewDiff, reviewDiscard = review.Apply, review.Diff, review.Discard
	reviewList, reviewShow, reviewUndo     = review.List, review.Show, review.Undo
	reviewNames                            = review.Names
)
