//go:build unix

package stdio

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// sharedPipe is a pipe that processes can hold open when their command has ended.
type sharedPipe struct {
	read      *os.File
	afterExit io.Writer

	mu   sync.Mutex
	over bool // it is nobody's any more but the copy's to late
}

// errStillOpen says that a pipe was copied as far as its command has written to it.
var errStillOpen = errors.New("others have it open")

// copy copies until the pipe ends, or the deadline of its reads: then what is in it by now is the
// command's, and the rest goes to late.
func (o *sharedPipe) copy(w io.Writer, _ io.Reader) (n int64, err error) {
	n, err = io.Copy(w, struct{ io.Reader }{o.read})
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	o.read.SetReadDeadline(time.Time{})
	m, err := o.drain(w)
	if n += m; err != nil {
		return n, err
	}
	o.mu.Lock()
	o.over = true
	o.mu.Unlock()
	go func() {
		io.Copy(o.afterExit, o.read)
		o.read.Close()
	}()
	return n, errStillOpen
}

// maxPipe is more than a pipe has in it, unless its owner has made it larger: what its processes write
// meanwhile is not waited for.
const maxPipe = 1 << 20

// drain copies what is in the pipe by now.
func (o *sharedPipe) drain(w io.Writer) (n int64, err error) {
	raw, err := o.read.SyscallConn()
	if err != nil {
		return 0, err
	}
	p := make([]byte, 32<<10)
	for n < maxPipe {
		got, failed := 0, error(nil)
		if err := raw.Read(func(fd uintptr) bool {
			got, failed = unix.Read(int(fd), p)
			return true // whether or not there is something
		}); err != nil {
			return n, err
		}
		if failed == unix.EINTR {
			continue
		}
		if failed != nil || got <= 0 {
			break // nothing more for now, or ever
		}
		if _, err := w.Write(p[:got]); err != nil {
			return n, err
		}
		n += int64(got)
	}
	return n, nil
}

// close ends the copying, unless that goes to late.
func (o *sharedPipe) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.over {
		o.read.Close()
	}
}

// serialized gives what several pipes are copied to, as a Write at a time. What is written to
// nil is lost.
func serialized(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return &oneAtATime{w: w}
}

type oneAtATime struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *oneAtATime) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}
