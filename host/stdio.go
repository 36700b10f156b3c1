package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// ErrWaitDelay says that a command ended and its output was still held open
// when Cmd.WaitDelay had passed.
var ErrWaitDelay = errors.New("WaitDelay passed before the command's output ended")

// stdio makes the files that the engine gets.
func (c *Cmd) stdio() (shared.Stdio, error) {
	if c.TTY {
		return c.terminal()
	}
	var s shared.Stdio
	var err error
	if s.Stdin, err = c.stdin(); err != nil {
		return s, err
	}
	if s.Stdout, err = c.output(c.Stdout); err != nil {
		return s, err
	}
	if c.Stderr != nil && sameWriter(c.Stderr, c.Stdout) {
		s.Stderr = s.Stdout // one pipe keeps the order of what is written
	} else if s.Stderr, err = c.output(c.Stderr); err != nil {
		return s, err
	}
	return s, s.Validate()
}

func (c *Cmd) stdin() (*os.File, error) {
	switch stdin := c.Stdin.(type) {
	case nil:
		return nil, nil
	case *os.File:
		return stdin, nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.childFiles = append(c.childFiles, read)
	c.parentFiles = append(c.parentFiles, write)
	stdin := c.Stdin
	c.feeders = append(c.feeders, func() {
		io.Copy(write, stdin) // its error is the command's affair: it need not read all
		write.Close()
	})
	return read, nil
}

func (c *Cmd) output(w io.Writer) (*os.File, error) {
	switch out := w.(type) {
	case nil:
		return nil, nil
	case *os.File:
		return out, nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.childFiles = append(c.childFiles, write)
	c.parentFiles = append(c.parentFiles, read)
	c.copiers = append(c.copiers, func() error {
		_, err := io.Copy(w, read)
		read.Close() // the command gets SIGPIPE where the writer has failed
		return err
	})
	return write, nil
}

// terminal makes the pair of which the command gets the slave.
func (c *Cmd) terminal() (shared.Stdio, error) {
	if c.Stderr != nil {
		return shared.Stdio{}, errors.New("host: with TTY, Stderr must be nil: a terminal has one output")
	}
	p, err := openPTY(c.Size)
	if err != nil {
		return shared.Stdio{}, fmt.Errorf("terminal: %w", err)
	}
	c.pty = p
	if user := c.opened.resolved.spec.User; user != nil {
		// As login does: programs reopen their terminal by its name.
		if err := p.slave.Chown(int(user.UID), -1); err != nil {
			return shared.Stdio{}, fmt.Errorf("terminal: %w", err)
		}
	}
	c.childFiles = append(c.childFiles, p.slave)
	if c.Stdin != nil {
		stdin := c.Stdin
		c.feeders = append(c.feeders, func() { io.Copy(p.master, stdin) })
	}
	out := c.Stdout
	if out == nil {
		out = io.Discard
	}
	c.copiers = append(c.copiers, func() error {
		_, err := io.Copy(out, p.output())
		return err
	})
	return shared.Stdio{Stdin: p.slave, Stdout: p.slave, Stderr: p.slave}, nil
}

// waitCopied waits for the goroutines that copy output.
func (c *Cmd) waitCopied() error {
	var timeout <-chan time.Time
	if c.WaitDelay > 0 {
		timer := time.NewTimer(c.WaitDelay)
		defer timer.Stop()
		timeout = timer.C
	}
	var first error
	for ; c.copying > 0; c.copying-- {
		select {
		case err := <-c.copied:
			if first == nil {
				first = err
			}
		case <-timeout:
			closeAll(c.parentFiles) // ends the copying
			c.pty.close()
			return ErrWaitDelay
		}
	}
	return first
}

// sameWriter compares as os/exec does: what cannot be compared is different.
func sameWriter(a, b io.Writer) (same bool) {
	defer func() {
		if recover() != nil {
			same = false
		}
	}()
	return a == b
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// middle keeps the beginning and the end of what is written to it.
type middle struct {
	limit   int // of each half, in bytes
	head    []byte
	tail    []byte
	skipped int64
}

func (m *middle) Write(p []byte) (int, error) {
	n := len(p)
	if room := m.limit - len(m.head); room > 0 {
		take := min(room, len(p))
		m.head = append(m.head, p[:take]...)
		p = p[take:]
	}
	m.tail = append(m.tail, p...)
	if over := len(m.tail) - m.limit; over > 0 {
		m.skipped += int64(over)
		m.tail = append(m.tail[:0], m.tail[over:]...)
	}
	return n, nil
}

// Bytes gives what was kept and says how much was not.
func (m *middle) Bytes() []byte {
	out := append([]byte(nil), m.head...)
	if m.skipped > 0 {
		out = fmt.Appendf(out, "\n... omitting %d bytes ...\n", m.skipped)
	}
	return append(out, m.tail...)
}
