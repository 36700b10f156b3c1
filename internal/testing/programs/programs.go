// Package programs has the programs of this module that tests start. SBXHOST_TEST_BIN is a
// directory in which somebody has built them, as make does; elsewhere they are built here,
// each once for a test program, which calls Remove at its end.
package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
)

var (
	mu   sync.Mutex
	dir  string
	have []string
)

// Dir gives a directory with programs, among others. They are named by their packages, as
// those lie below the top of this repository: cmd/sbxhost is there as sbxhost.
func Dir(packages ...string) (string, error) {
	if built := os.Getenv("SBXHOST_TEST_BIN"); built != "" {
		return built, nil
	}
	mu.Lock()
	defer mu.Unlock()
	if dir == "" {
		made, err := os.MkdirTemp("", "sbxhost-test-programs-")
		if err == nil {
			err = os.Chmod(made, 0o755) // commands of others run what is there
		}
		if err != nil {
			return "", err
		}
		dir = made
	}
	args := []string{"build", "-buildvcs=false", "-tags", "grpcnotrace", "-o", dir + "/"}
	for _, p := range packages {
		if !slices.Contains(have, p) {
			have = append(have, p)
			args = append(args, "github.com/sbxhost/sbxhost/"+p)
		}
	}
	if args[len(args)-1] == dir+"/" {
		return dir, nil
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		have = nil
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return dir, nil
}

// Copy puts programs into a directory, which need not exist, and nothing else. Another process
// writes them: a child that is forked here meanwhile would have a file open for writing, and
// nobody could execute it until that child has executed its own program.
func Copy(to string, packages ...string) error {
	from, err := Dir(packages...)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	args := []string{"-f"}
	for _, p := range packages {
		args = append(args, filepath.Join(from, filepath.Base(p)))
	}
	if out, err := exec.Command("cp", append(args, to)...).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w\n%s", err, out)
	}
	return nil
}

// Remove removes what was built.
func Remove() { os.RemoveAll(dir) }

// Write writes a program that will be executed, a script say. Nothing is forked meanwhile: a child
// of another test would have the file open until it executes something, and the kernel executes
// nothing that is open to be written.
func Write(path string, program []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, program, 0o755)
}
