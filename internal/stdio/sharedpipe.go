//go:build unix

package stdio

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
)

// sharedPipe is a pipe that processes can hold open after their command has ended.
type sharedPipe struct {
	read      *os.File
	afterExit io.Writer

	mu   sync.Mutex
	over bool // only the copy to afterExit uses it now
}

// errStillOpen says that the copy of a pipe stopped after the last bytes of its command.
var errStillOpen = errors.New("others have it open")

// copy copies until the pipe ends, or until the deadline of its reads. At the deadline, the bytes
// in the pipe belong to the command; all later bytes go to afterExit.
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

// drain copies the bytes that are in the pipe now. It does not wait for bytes that other processes
// write meanwhile, nor for those that they take out: who can write to a pipe can open it to read, too.
func (o *sharedPipe) drain(w io.Writer) (n int64, err error) {
	return io.Copy(w, io.LimitReader(waiting{o.read}, int64(waitingIn(o.read))))
}

// waiting reads what waits in a file that does not block.
type waiting struct{ pipe *os.File }

func (r waiting) Read(p []byte) (n int, err error) {
	for err = unix.EINTR; err == unix.EINTR; {
		err = frame.Control(r.pipe, func(fd int) (err error) {
			n, err = unix.Read(fd, p)
			return err
		})
	}
	if n = max(n, 0); n == 0 {
		err = io.EOF
	}
	return n, err
}

// close ends the copy, unless that goes to afterExit.
func (o *sharedPipe) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.over {
		o.read.Close()
	}
}

// oneAtATime passes one Write at a time from several pipes to w.
type oneAtATime struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *oneAtATime) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}
