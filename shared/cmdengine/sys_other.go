//go:build unix && !linux

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

// givePipes has nothing to do: /dev/fd duplicates descriptors here.
func givePipes([]*os.File, *syscall.Credential) {}
