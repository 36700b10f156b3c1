//go:build unix

package shared

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/mem"
)

// fillFrom is fill from a pipe that Go waits for. No buffer is taken before
// there is something to read: a command has two outputs as a rule, and most
// of the time both are silent.
func (p *chunkPool) fillFrom(f *os.File) (buf mem.Buffer, data []byte, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	var readErr error
	err = conn.Read(func(fd uintptr) (done bool) {
		for {
			buf, data, readErr = p.fill(func(b []byte) (int, error) { return unix.Read(int(fd), b) })
			if !errors.Is(readErr, unix.EINTR) {
				return !errors.Is(readErr, unix.EAGAIN)
			}
		}
	})
	switch {
	case err != nil: // of waiting
	case readErr != nil:
		err = &os.PathError{Op: "read", Path: f.Name(), Err: readErr}
	case buf == nil:
		err = io.EOF
	}
	return buf, data, err
}
