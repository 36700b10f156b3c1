//go:build unix && !linux

package sandboxinit

import (
	"errors"
	"os"
	"time"
)

// KillOrphans does nothing: there are no pid namespaces here.
func KillOrphans(time.Duration) {}

// role is nil: only Linux has the init.
func role([]string) func() int { return nil }

const ownFDs = "/dev/fd/"

// Sealed is a file without a name, with that content, at its start.
func Sealed(name, content string) (*os.File, error) {
	w, err := os.CreateTemp("", name+"-*")
	if err != nil {
		return nil, err
	}
	defer w.Close()
	defer os.Remove(w.Name())
	if _, err := w.WriteString(content); err != nil {
		return nil, err
	}
	return os.Open(w.Name())
}

func openBinary(b Binary) (*os.File, error) { return os.Open(b.Path) }

// Sockets does nothing: only Linux has network namespaces.
type Sockets struct{}

// NewSockets fails.
func NewSockets() (*Sockets, *os.File, error) { return nil, nil, errors.ErrUnsupported }

// Lost is false.
func (*Sockets) Lost() bool { return false }

// Close does nothing.
func (*Sockets) Close() error { return nil }
