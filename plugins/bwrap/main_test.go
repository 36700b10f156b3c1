package bwrap

import (
	"os"
	"testing"

	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// The test binary is the init, as sbxhost is.
func TestMain(m *testing.M) {
	sandboxinit.Hook()
	os.Exit(m.Run())
}
