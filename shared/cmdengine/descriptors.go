package cmdengine

import (
	"os"
	"strconv"
	"syscall"
)

// closeOnExecListed marks the descriptors that are named in a directory of the
// system's, but for the standard ones.
func closeOnExecListed(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
