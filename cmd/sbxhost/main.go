//go:debug containermaxprocs=0

// Sbxhost runs commands that nobody has read yet inside a fresh, lightweight
// sandbox each:
//
//	sbxhost exec -sandbox fast -- npm test
//
// It is the command line of package host: `sbxhost -help` lists what there is.
//
// The promise: results go to standard output and everything that sbxhost
// itself has to say to standard error; the exit status is the command's own,
// and the help of exec explains 124 to 127. Nothing is run without the
// isolation that the configuration asks for.
//
// Nothing obeys a configuration that came with the workspace before its user
// has trusted its text, and nothing runs without a sandbox that its user has
// not approved.
//
// The limits: whoever can write the configuration in force decides what the
// sandbox is, and who can run programs as the user outside of one can approve
// in the user's name.
package main

import (
	"os"
	"runtime/debug"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/plugins/bwrap"
	"github.com/sbxhost/sbxhost/plugins/landlock"
	"github.com/sbxhost/sbxhost/plugins/native"
	"github.com/sbxhost/sbxhost/plugins/noop"
	"github.com/sbxhost/sbxhost/plugins/seatbelt"
	"github.com/sbxhost/sbxhost/shared/enginetest"
)

// gcPercent lets the heap, with some live MiB, grow fivefold. A run of one command ends before the
// first collection. With Go's default of 100, a server spends a tenth of a command's time on
// collections.
const gcPercent = 400

func main() {
	enginetest.Hook() // inside a sandbox under test, this program is the payload: Hook then does not return
	builtins := host.ServeBuiltin(native.New(), bwrap.New(), landlock.New(), seatbelt.New(), noop.New())
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(run(builtins, os.Args[1:]))
}
