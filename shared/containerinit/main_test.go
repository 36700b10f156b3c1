package containerinit_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// bin is the real sbxhost-init.
var bin string

// The test binary itself serves as the init that TestOwn starts.
func TestMain(m *testing.M) {
	sandboxinit.Hook()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "containerinit-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin = filepath.Join(dir, "sbxhost-init")
	build := exec.Command("go", "build", "-o", bin, "../sandboxinit/sbxhost-init")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build sbxhost-init: %v: %s\n", err, out)
		return 1
	}
	return m.Run()
}
