package seatbelt

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sbxhost/sbxhost/shared/enginetest"
)

// The test binary is what the conformance kit runs inside, and stands in for the launcher where there
// is no Mac: see fake_linux_test.go.
func TestMain(m *testing.M) {
	enginetest.Hook()
	switch filepath.Base(os.Args[0]) {
	case "fake-sandbox-exec":
		os.Exit(fakeSandboxExec())
	}
	os.Exit(m.Run())
}
