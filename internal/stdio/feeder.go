//go:build unix

package stdio

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
)

// feeder copies Stdin to the command. A nil one has nothing to copy.
type feeder struct {
	from io.Reader
	to   *os.File
	pipe bool // to is a pipe, whose end the command is to see
	// keyed, if set, is told what was typed.
	keyed func([]byte)

	mu      sync.Mutex
	reading bool // a Read of from is under way
	stopped bool

	done chan struct{}
	err  error // of a Read, once done
}

func newFeeder(from io.Reader, to *os.File, pipe bool) *feeder {
	return &feeder{from: from, to: to, pipe: pipe, done: make(chan struct{})}
}

// feed copies until either end is reached.
func (f *feeder) feed() {
	defer close(f.done)
	io.Copy(feederEnd{f}, f) // that the command did not read all is its own affair
	if f.pipe {
		f.to.Close()
	}
}

// feederEnd is what feed writes to.
type feederEnd struct{ f *feeder }

func (e feederEnd) Write(p []byte) (int, error) {
	n, err := e.f.to.Write(p)
	if e.f.keyed != nil {
		e.f.keyed(p[:n])
	}
	return n, err
}

// Read implements io.Reader for feed.
func (f *feeder) Read(p []byte) (int, error) {
	if !f.setReading(true) {
		return 0, io.EOF
	}
	n, err := f.from.Read(p)
	if err != nil && err != io.EOF {
		f.err = err
	}
	f.setReading(false)
	return n, err
}

// setReading reports whether reading may go on.
func (f *feeder) setReading(reading bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reading = reading && !f.stopped
	return !f.stopped
}

// stop ends the copying, once the command has ended. It waits for all but a
// Read that may block: nobody may be there to end it, as at a terminal. The
// error is that of a Read that has failed.
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
		if !reading || neverBlocks(f.from) {
			<-f.done
		}
	}
	select {
	case <-f.done:
		return f.err
	default:
		return nil
	}
}

// neverBlocks knows the readers of memory, which callers expect to be able to
// use again after Wait.
func neverBlocks(r io.Reader) bool {
	switch r.(type) {
	case *bytes.Buffer, *bytes.Reader, *strings.Reader:
		return true
	}
	return false
}
