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

// Outer is sbxhost's own terminal, while sbxhost passes typed input on to a command's terminal. A
// nil Outer does nothing.
type Outer struct {
	file *os.File
	// requested says that a person has asked for it by -t.
	requested bool

	mu    sync.Mutex
	taken *sync.Cond    // saved has changed
	saved *unix.Termios // the original modes; nil while the terminal has them
	ended [2]bool       // the user typed the keys for SIGINT and SIGQUIT
}

// Open returns nil if stdin is not a terminal.
func Open(stdin io.Reader, wanted bool) *Outer {
	if !cli.IsTerminal(stdin) {
		return nil
	}
	t := &Outer{file: stdin.(*os.File), requested: wanted}
	t.taken = sync.NewCond(&t.mu)
	return t
}

// ErrBackground says that the terminal now belongs to another job. To touch it would stop this
// process by SIGTTOU at any point.
var ErrBackground = errors.New("sbxhost is in the background")

// Raw makes the terminal pass on every key, also ^C. It does so again if the terminal is raw
// already: a shell may have stopped this process by SIGSTOP, without notice, and reset the terminal
// meanwhile. But a terminal that was raw before this process belongs to another program, which
// reads its keys and would find the changed modes at its end.
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

// Restore restores the terminal, unless it belongs to another job. It discards typed input that the
// command has not read: a shell would run it.
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

// InBackground reports whether a terminal belongs to another job. To touch it would then stop this
// process. A terminal that is gone, or is not this process's controlling terminal, has no jobs.
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

// Read returns input that is typed while the terminal is raw. A read that began before gets the
// line editor's rest. A read that waits in the kernel when this process becomes a background job
// would stop it again at once after each SIGCONT, even if that came to end it.
func (t *Outer) Read(p []byte) (int, error) {
	fd := int(t.file.Fd())
	for {
		t.mu.Lock()
		for t.saved == nil || InBackground(t.file) {
			t.taken.Wait()
		}
		t.mu.Unlock()
		// Not poll, which does not work for terminals on macOS.
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

// endKeys are the keys that end a job, by their index in the terminal's modes, and their signals.
var endKeys = [2]struct {
	key int
	sig syscall.Signal
}{{unix.VINTR, syscall.SIGINT}, {unix.VQUIT, syscall.SIGQUIT}}

// note looks at the typed input.
func (t *Outer) note(keys []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, end := range endKeys {
		if t.saved != nil && bytes.IndexByte(keys, t.saved.Cc[end.key]) >= 0 {
			t.ended[i] = true
		}
	}
}

// SignalJob sends a signal that has ended the command to the rest of this job, if the user typed
// it: the parent would have got it from the terminal.
func (t *Outer) SignalJob(sig syscall.Signal) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, end := range endKeys {
		if end.sig == sig && t.ended[i] {
			signal.Notify(make(chan os.Signal, 1), sig) // this process ends by itself
			syscall.Kill(0, sig)
		}
	}
}

// Size returns the size of the first of streams that is a terminal, or zero.
func Size(streams ...any) host.TerminalSize {
	for _, stream := range streams {
		if cols, rows := cli.Size(stream); cols > 0 && rows > 0 && cols < 1<<16 && rows < 1<<16 {
			return host.TerminalSize{Rows: uint16(rows), Cols: uint16(cols)}
		}
	}
	return host.TerminalSize{}
}

// TypedInput ends input that is not a terminal as a person would: with ^D. Otherwise a command that
// reads its terminal to the end would wait forever.
type TypedInput struct {
	From   io.Reader
	inLine bool // the last byte did not end a line
	ended  bool
}

func (t *TypedInput) Read(p []byte) (int, error) {
	if t.ended {
		return 0, io.EOF
	}
	n, err := t.From.Read(p)
	switch {
	case n > 0:
		t.inLine = p[n-1] != '\n'
	case err != nil && len(p) > 0:
		// Within a line, ^D only delivers that part of the line.
		t.ended = !t.inLine
		t.inLine = false
		p[0] = 'D' & 0x1f
		return 1, nil
	}
	return n, nil
}

// EOFReader reports when its input has ended.
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

// CooksOutput reports whether a terminal itself changes the ends of lines.
func CooksOutput(fd int) bool {
	mode, err := unix.IoctlGetTermios(fd, getModes)
	return err != nil || mode.Oflag&unix.OPOST != 0
}
