package host

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// ErrWaitDelay says that a command ended and its output was still held open
// when Cmd.WaitDelay had passed. It is the one of os/exec, so that code which
// looks for that finds it.
var ErrWaitDelay = exec.ErrWaitDelay

// Output runs the command and returns what it wrote to its standard output. An
// *ExitError then has what it wrote to its standard error, if Stderr was nil.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, errors.New("host: Stdout already set")
	}
	var stdout bytes.Buffer
	c.Stdout = &stdout
	var stderr *middle
	if c.Stderr == nil && !c.TTY {
		stderr = &middle{limit: 32 << 10}
		c.Stderr = stderr
	}
	err := c.Run()
	if exit, ok := errors.AsType[*ExitError](err); ok && stderr != nil {
		exit.Stderr = stderr.Bytes()
	}
	return stdout.Bytes(), err
}

// CombinedOutput runs the command and returns its standard output and standard
// error as they came.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil {
		return nil, errors.New("host: Stdout already set")
	}
	if c.Stderr != nil {
		return nil, errors.New("host: Stderr already set")
	}
	var out bytes.Buffer
	c.Stdout = &out
	if !c.TTY {
		c.Stderr = &out
	}
	err := c.Run()
	return out.Bytes(), err
}

// StdinPipe gives a pipe to the command's standard input. Wait closes it;
// close it before where the command is to see the end of its input.
func (c *Cmd) StdinPipe() (io.WriteCloser, error) {
	if c.Stdin != nil {
		return nil, errors.New("host: Stdin already set")
	}
	read, write, err := c.pipe("StdinPipe")
	if err != nil {
		return nil, err
	}
	c.Stdin = read
	c.childFiles = append(c.childFiles, read)
	c.parentFiles = append(c.parentFiles, write)
	return write, nil
}

// StdoutPipe gives a pipe from the command's standard output. Wait closes it,
// so that Wait, and also Run, must not be called before all has been read. Not
// with TTY.
func (c *Cmd) StdoutPipe() (io.ReadCloser, error) {
	return c.outputPipe("StdoutPipe", &c.Stdout)
}

// StderrPipe is like StdoutPipe for the command's standard error.
func (c *Cmd) StderrPipe() (io.ReadCloser, error) {
	return c.outputPipe("StderrPipe", &c.Stderr)
}

func (c *Cmd) outputPipe(method string, w *io.Writer) (io.ReadCloser, error) {
	if *w != nil {
		return nil, fmt.Errorf("host: %s already set", strings.TrimSuffix(method, "Pipe"))
	}
	read, write, err := c.pipe(method)
	if err != nil {
		return nil, err
	}
	*w = write
	c.childFiles = append(c.childFiles, write)
	c.parentFiles = append(c.parentFiles, read)
	return read, nil
}

func (c *Cmd) pipe(method string) (read, write *os.File, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.startCalled { // nobody would close them
		return nil, nil, fmt.Errorf("host: %s after process started", method)
	}
	c.piped = true
	return os.Pipe()
}

// stdio makes the files that the engine gets.
func (c *Cmd) stdio() (shared.Stdio, error) {
	var s shared.Stdio
	var err error
	if c.TTY {
		if s.Stdin, err = c.terminal(); err != nil {
			return s, err
		}
		s.Stdout = s.Stdin
	} else if s.Stdin, err = c.input(); err != nil {
		return s, err
	} else if s.Stdout, err = c.output(c.Stdout); err != nil {
		return s, err
	}
	if c.Stderr == nil && c.TTY || c.Stderr != nil && c.sameOutput(c.Stderr, c.Stdout) {
		s.Stderr = s.Stdout // one pipe keeps the order of what is written
	} else if s.Stderr, err = c.output(c.Stderr); err != nil {
		return s, err
	}
	return s, s.Validate()
}

func (c *Cmd) input() (*os.File, error) {
	switch stdin := c.Stdin.(type) {
	case nil:
		return nil, nil
	case *os.File:
		if isTerminal(stdin) {
			return nil, nil
		}
		// Through /proc/self/fd/0 a command could open a regular file again, and
		// write to what it was only given to read.
		if info, err := stdin.Stat(); err != nil || !info.Mode().IsRegular() || c.opened.resolved.spec.Unconfined {
			return stdin, nil
		}
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.childFiles = append(c.childFiles, read)
	c.parentFiles = append(c.parentFiles, write)
	c.stdin = newFeeder(c.Stdin, write, true)
	return read, nil
}

func (c *Cmd) output(w io.Writer) (*os.File, error) {
	switch out := w.(type) {
	case nil:
		return nil, nil
	case *os.File:
		if isTerminal(out) {
			return c.screen(out)
		}
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
func (c *Cmd) terminal() (*os.File, error) {
	if c.piped {
		return nil, errors.New("host: with TTY there are no pipes; set Stdin and Stdout, to ends of io.Pipe for example")
	}
	p, err := c.newTerminal(c.Size, c.Stdout, openPTY)
	if err != nil {
		return nil, err
	}
	if c.Stdin != nil {
		c.stdin = newFeeder(c.Stdin, p.master, false)
		if c.Suspend != nil {
			c.stdin.keyed = func(keys []byte) {
				if p.stops(keys) {
					c.Suspend()
				}
			}
		}
	}
	return p.slave, nil
}

// screen makes a terminal that the command can only write to, in place of the
// caller's. Lines end there as they do on the caller's, which sees to that itself.
func (c *Cmd) screen(out *os.File) (*os.File, error) {
	p, err := c.newTerminal(cmp.Or(c.Size, sizeOf(out)), out, openScreen)
	if err != nil {
		return nil, err
	}
	return p.slave, nil
}

func (c *Cmd) newTerminal(size shared.TerminalSize, out io.Writer, open func(shared.TerminalSize) (*pty, error)) (*pty, error) {
	p, err := open(size)
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	c.terminals = append(c.terminals, p)
	if user := c.opened.resolved.spec.User; user != nil {
		// As login does: programs reopen their terminal by its name.
		if err := p.slave.Chown(int(user.UID), -1); err != nil {
			return nil, fmt.Errorf("terminal: %w", err)
		}
	}
	c.childFiles = append(c.childFiles, p.slave)
	if out == nil {
		out = io.Discard
	}
	c.copiers = append(c.copiers, func() error {
		_, err := io.Copy(out, p.output())
		return err
	})
	return p, nil
}

func (c *Cmd) closeTerminals() {
	for _, p := range c.terminals {
		p.close()
	}
}

// waitCopied waits for the goroutines that copy output and for the last event.
func (c *Cmd) waitCopied() error {
	var timeout <-chan time.Time
	delay := c.WaitDelay
	if c.gaveUp && (delay <= 0 || delay > unwindTime) {
		delay = unwindTime // whoever holds the output open is not known to end
	}
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		timeout = timer.C
	}
	var first error
	for left := len(c.copiers); left > 0; left-- {
		select {
		case err := <-c.copied:
			first = cmp.Or(first, err)
			continue
		case <-timeout:
		}
		closeAll(c.parentFiles) // ends the copying, unless a Write blocks
		c.closeTerminals()
		for ; left > 0; left-- {
			<-c.copied // or it would still write when Wait has returned
		}
		return ErrWaitDelay
	}
	select {
	case <-c.events:
	case <-timeout:
		first = cmp.Or(first, ErrWaitDelay)
	}
	return first
}

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

// sameOutput reports whether two writers lead to the same place: what cannot be
// compared is different, as in os/exec, and two files of one terminal are one.
func (c *Cmd) sameOutput(a, b io.Writer) bool {
	if sameWriter(a, b) {
		return true
	}
	f, _ := a.(*os.File)
	g, _ := b.(*os.File)
	return f != nil && g != nil && isTerminal(f) && isTerminal(g) && sameDevice(f, g)
}

// sameWriter compares as os/exec does.
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
