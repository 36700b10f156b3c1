//go:build !linux

package cmdengine

import (
	"os"
	"syscall"
)

// There is no parent-death signal outside Linux.
func dieWithParent(*syscall.SysProcAttr) {}

// awaitExit does not wait: macOS's waitid also returns for a process that has
// only stopped. The process group is then killed just after its leader is reaped.
func awaitExit(int) {}

// holdDir holds nothing: macOS has no path for an open directory.
func holdDir(dir string) (*os.File, string, syscall.Errno) { return nil, dir, 0 }

// scriptFile gives a script to a shell by descriptor, from a file that no name leads to.
func scriptFile(text string) (*os.File, error) {
	w, err := os.CreateTemp("", "sbxhost-script-*")
	if err != nil {
		return nil, err
	}
	defer w.Close()
	defer os.Remove(w.Name())
	if _, err := w.WriteString(text); err != nil {
		return nil, err
	}
	return os.Open(w.Name())
}

// givePipes has nothing to do: /dev/fd duplicates descriptors here.
func givePipes([]*os.File, *syscall.Credential) {}
