package enginetest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared/enginetest"
)

// An engine that shares no code with this module.
func TestPython(t *testing.T) {
	if out, err := exec.Command("/usr/bin/python3", "-c", "import grpc, google.protobuf").CombinedOutput(); err != nil {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "python3-grpcio") {
			t.Fatalf("SBXHOST_REQUIRE lists python3-grpcio: %v: %s", err, out)
		}
		t.Skip("no grpcio for Python here")
	}
	program, err := filepath.Abs("../../examples/engine-python/sbxhost-engine-python")
	if err != nil {
		t.Fatal(err)
	}
	enginetest.RunBinary(t, program, enginetest.Options{StreamBytes: 1 << 20})
}
