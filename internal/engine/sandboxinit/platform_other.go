//go:build unix && !linux

package sandboxinit

import (
	"errors"
	"os"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// role is none: the init runs on Linux alone.
func role(string, []int) func() int { return nil }

func runInit(int) int { return proc.Failed }

const ownFDs = "/dev/fd/"

// Sealed is a file that no name leads to, with that content, read from its start.
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

func socketpair() ([2]int, error) {
	// Without SOCK_CLOEXEC a fork between the two calls would inherit the ends.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	return fds, err
}

// Sockets is a line to an init: Linux alone has network namespaces.
type Sockets struct{}

// NewSockets says that there are none.
func NewSockets() (*Sockets, *os.File, error) { return nil, nil, errors.ErrUnsupported }

// Lost is false.
func (*Sockets) Lost() bool { return false }

// Close does nothing.
func (*Sockets) Close() error { return nil }
