package bwrap

import (
	"os"
	"testing"

	"github.com/sbxhost/sbxhost/shared/enginetest"
)

// The test binary is the init, as sbxhost is, what the conformance kit runs inside, and
// an engine's process for the test that kills one.
func TestMain(m *testing.M) {
	enginetest.Hook()
	if len(os.Args) > 1 && os.Args[1] == engineArg {
		os.Exit(engineMain())
	}
	enginetest.Main(m, New())
}
