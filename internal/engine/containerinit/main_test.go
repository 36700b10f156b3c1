package containerinit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/internal/testing/programs"
)

// bin is the real sbxhost-init.
var bin string

// The test binary itself serves as the init that TestOwn starts.
func TestMain(m *testing.M) {
	sandboxinit.Hook()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := programs.Dir("cmd/sbxhost-init")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer programs.Remove()
	bin = filepath.Join(dir, "sbxhost-init")
	return m.Run()
}
