package terminal

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/host"
)

// Outer is the terminal that sbxhost itself runs on, while it passes
// what is typed on to a command's own. A nil one does nothing.
type Outer struct {
	file *os.File
	// requested says that a person has asked for it by -t.
	requested bool

	mu    sync.Mutex
	taken *sync.Cond    // there is something new about saved
	saved *unix.Termios // as it was; nil while it is so
	ended [2]bool       // the keys for SIGINT and SIGQUIT were typed
}

// Open gives nil where stdin is no terminal.
func Open(stdin io.Reader, wanted bool) *Outer {
	if !cli.IsTerminal(stdin) {
		return nil
	}
	t := &Outer{file: stdin.(*os.File), requested: wanted}
	t.taken = sync.NewCond(&t.mu)
	return t
}

// ErrBackground says that the terminal is another job's now. To touch it would
// stop us, by SIGTTOU, wherever we are.
var ErrBackground = errors.New("sbxhost is in the background")

// Raw makes the terminal pass on every key, ^C too. It does so again on one
// that is raw already: a shell that has stopped us by SIGSTOP, of which nobody
// told us, made it its own meanwhile. But one that was raw before us is another
// program's, which reads its keys and would find our modes when it ends.
func (t *Outer) Raw() error {
	if t == nil {
		return nil
	}
	if InBackground(t.file) {
		return ErrBackground
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	modes, err := unix.IoctlGetTermios(int(t.file.Fd()), getModes)
	if err != nil {
		return err
	}
	if t.saved == nil && !t.requested && modes.Lflag&unix.ICANON == 0 {
		return ErrBackground
	}
	if _, err := term.MakeRaw(int(t.file.Fd())); err != nil {
		return err
	}
	if t.saved == nil {
		t.saved = modes
	}
	t.taken.Broadcast()
	return nil
}

// Restore makes the terminal what it was, unless it is another job's. What was
// typed for the command and not read is thrown away: a shell would run it.
func (t *Outer) Restore() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved == nil {
		return
	}
	if !InBackground(t.file) {
		unix.IoctlSetTermios(int(t.file.Fd()), setModesFlush, t.saved)
	}
	t.saved = nil
}

// InBackground reports whether a terminal is another job's to read and to set. To touch it
// would stop us then. One that is gone, or not our controlling terminal, knows of no jobs.
func InBackground(tty *os.File) bool {
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group != unix.Getpgrp()
}

// IsRaw reports whether lines need a carriage return to begin at the left.
func (t *Outer) IsRaw() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.saved != nil
}

// Read gives what is typed while the terminal is raw. What a read finds that
// began before is what the line editor left; and one that waits in the kernel
// when we become a background job stops us again as soon as we are continued,
// though that may be in order to end.
func (t *Outer) Read(p []byte) (int, error) {
	fd := int(t.file.Fd())
	for {
		t.mu.Lock()
		for t.saved == nil || InBackground(t.file) {
			t.taken.Wait()
		}
		t.mu.Unlock()
		// Not poll, which knows no terminals on macOS.
		var ready unix.FdSet
		ready.Set(fd)
		if _, err := unix.Select(fd+1, &ready, nil, nil, nil); err != nil && err != unix.EINTR {
			return 0, err
		} else if err == nil && t.IsRaw() && !InBackground(t.file) {
			n, err := t.file.Read(p)
			t.note(p[:n])
			return n, err
		}
	}
}

// endKeys are the keys that end a job, as indices of a terminal's, and how.
var endKeys = [2]struct {
	key int
	sig syscall.Signal
}{{unix.VINTR, syscall.SIGINT}, {unix.VQUIT, syscall.SIGQUIT}}

// note looks at what is typed.
func (t *Outer) note(keys []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, end := range endKeys {
		if t.saved != nil && bytes.IndexByte(keys, t.saved.Cc[end.key]) >= 0 {
			t.ended[i] = true
		}
	}
}

// SignalJob sends a signal that has ended the command to the rest of our job, where it
// was typed: what has started us would have had it from the terminal.
func (t *Outer) SignalJob(sig syscall.Signal) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, end := range endKeys {
		if end.sig == sig && t.ended[i] {
			signal.Ignore(sig)
			syscall.Kill(0, sig)
		}
	}
}

// Size is the size of the first of streams that is a terminal, or zero.
func Size(streams ...any) host.TerminalSize {
	for _, stream := range streams {
		if cols, rows := cli.Size(stream); cols > 0 && rows > 0 && cols < 1<<16 && rows < 1<<16 {
			return host.TerminalSize{Rows: uint16(rows), Cols: uint16(cols)}
		}
	}
	return host.TerminalSize{}
}

// Typed ends input that is no terminal the way a person would: with ^D. A
// command that reads its terminal to the end would wait for ever otherwise.
type Typed struct {
	From   io.Reader
	inLine bool // what came last was no end of a line
	ended  bool
}

func (t *Typed) Read(p []byte) (int, error) {
	if t.ended {
		return 0, io.EOF
	}
	n, err := t.From.Read(p)
	switch {
	case n > 0:
		t.inLine = p[n-1] != '\n'
	case err != nil && len(p) > 0:
		// In a line, ^D only hands over what there is of it.
		t.ended = !t.inLine
		t.inLine = false
		p[0] = 'D' & 0x1f
		return 1, nil
	}
	return n, nil
}

// EOFReader tells when what it reads from is at its end.
type EOFReader struct {
	From  io.Reader
	Ended func()
}

func (w *EOFReader) Read(p []byte) (int, error) {
	n, err := w.From.Read(p)
	if err != nil {
		w.Ended()
	}
	return n, err
}

// CooksOutput reports whether a terminal makes a line's end one for itself.
func CooksOutput(fd int) bool {
	mode, err := unix.IoctlGetTermios(fd, getModes)
	return err != nil || mode.Oflag&unix.OPOST != 0
}
