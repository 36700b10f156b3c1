//go:build unix

package shared

import (
	"os"

	"golang.org/x/sys/unix"
)

// detachStdin makes descriptor 0 the null device: a command that inherits the host's terminal could
// read what the user types.
func detachStdin() error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	return unix.Dup2(int(null.Fd()), 0)
}
