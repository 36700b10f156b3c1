//go:build unix

package stdio

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
)

// feeder copies Stdin to the command. A nil feeder has nothing to copy.
type feeder struct {
	from io.Reader
	to   *os.File
	pipe bool // to is a pipe, and the command must see its end
	// unread, if set, reads what the command has left in the pipe. from is then a regular file.
	unread    *os.File
	unwritten int64 // bytes of from that are not in the pipe
	read      int64 // bytes of from
	// onKeys, if set, gets the typed bytes.
	onKeys func([]byte)

	mu      sync.Mutex
	reading bool // a Read of from is running
	stopped bool

	done chan struct{}
	err  error // of a Read, once that has returned
}

func newFeeder(from io.Reader, to *os.File, pipe bool) *feeder {
	return &feeder{from: from, to: to, pipe: pipe, done: make(chan struct{})}
}

// feed copies until either side ends.
func (f *feeder) feed() {
	defer close(f.done)
	io.Copy(feederEnd{f}, f) // a command need not read everything
	if f.pipe {
		f.to.Close()
	}
}

// feederEnd is the writer that feed copies to.
type feederEnd struct{ f *feeder }

func (e feederEnd) Write(p []byte) (int, error) {
	n, err := e.f.to.Write(p)
	e.f.unwritten = int64(len(p) - n)
	if e.f.onKeys != nil {
		e.f.onKeys(p[:n])
	}
	return n, err
}

func (f *feeder) Read(p []byte) (int, error) {
	if !f.setReading(true) {
		return 0, io.EOF
	}
	n, err := f.from.Read(p)
	if err != nil && err != io.EOF {
		f.err = err
	}
	f.read += int64(n)
	f.setReading(false)
	return n, err
}

// setReading reports whether feed may read on.
func (f *feeder) setReading(reading bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reading = reading && !f.stopped
	return !f.stopped
}

// stop ends the copy after the command has ended. It does not wait for a Read that may block, as at
// a terminal: perhaps nobody is there to end it. stop returns the error of a failed Read.
func (f *feeder) stop() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	f.stopped = true
	reading := f.reading
	f.mu.Unlock()
	if f.pipe {
		f.to.Close() // ends a Write
		if !reading || f.unread != nil || neverBlocks(f.from) {
			<-f.done
		}
	}
	if f.unread != nil {
		f.rewind()
	}
	select {
	case <-f.done:
		return f.err
	default:
		return nil
	}
}

// rewind sets the file's offset to the end of what the command has read. The caller and its next
// commands share the offset: in a loop of "while read", they go on with the next line. A command can
// write to the pipe, too, and what it has left running can keep the pipe open.
func (f *feeder) rewind() {
	left, _ := io.CopyN(io.Discard, waiting{f.unread}, f.read)
	left = min(left+f.unwritten, f.read)
	if file, ok := f.from.(*os.File); ok && left > 0 {
		file.Seek(-left, io.SeekCurrent)
	}
}

// waitingIn returns how many bytes wait in a pipe.
func waitingIn(pipe *os.File) (n int) {
	frame.Control(pipe, func(fd int) (err error) {
		n, err = unix.IoctlGetInt(fd, bytesWaiting)
		return err
	})
	return n
}

// neverBlocks recognizes the readers of memory. Callers expect to use these again after Wait.
func neverBlocks(r io.Reader) bool {
	switch r.(type) {
	case *bytes.Buffer, *bytes.Reader, *strings.Reader:
		return true
	}
	return false
}
