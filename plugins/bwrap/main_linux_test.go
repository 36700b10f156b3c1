package bwrap

import (
	"os"
	"testing"

	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// The test binary is the init and the holder, as sbxhost is, and an engine's
// process for the tests that kill one.
func TestMain(m *testing.M) {
	sandboxinit.Hook()
	if len(os.Args) > 1 && os.Args[1] == engineArg {
		os.Exit(engineMain(os.Args[2:]))
	}
	os.Exit(m.Run())
}
