package main

import (
	"io"
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/sbxhost/sbxhost/shared"
)

// outerTerminal is the terminal that sbxhost itself runs on, while it passes
// what is typed on to a command's own. A nil one does nothing.
type outerTerminal struct {
	file *os.File

	mu    sync.Mutex
	saved *term.State // as it was; nil while it is so
}

// openOuterTerminal gives nil where stdin is no terminal.
func openOuterTerminal(stdin io.Reader) *outerTerminal {
	if !isTerminal(stdin) {
		return nil
	}
	return &outerTerminal{file: stdin.(*os.File)}
}

// raw makes the terminal pass on every key, ^C too.
func (t *outerTerminal) raw() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved != nil {
		return nil
	}
	saved, err := term.MakeRaw(int(t.file.Fd()))
	if err != nil {
		return err
	}
	t.saved = saved
	return nil
}

// restore makes the terminal what it was.
func (t *outerTerminal) restore() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved != nil {
		term.Restore(int(t.file.Fd()), t.saved)
		t.saved = nil
	}
}

// isRaw reports whether lines need a carriage return to begin at the left.
func (t *outerTerminal) isRaw() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.saved != nil
}

// terminalSize is the size of the first of streams that is a terminal, or zero.
func terminalSize(streams ...any) shared.TerminalSize {
	for _, stream := range streams {
		if !isTerminal(stream) {
			continue
		}
		cols, rows, err := term.GetSize(int(stream.(*os.File).Fd()))
		if err == nil && cols > 0 && rows > 0 && cols < 1<<16 && rows < 1<<16 {
			return shared.TerminalSize{Rows: uint16(rows), Cols: uint16(cols)}
		}
	}
	return shared.TerminalSize{}
}

// typed ends input that is no terminal the way a person would: with ^D. A
// command that reads its terminal to the end would wait for ever otherwise.
type typed struct {
	from  io.Reader
	ended bool
}

func (t *typed) Read(p []byte) (int, error) {
	if t.ended {
		return 0, io.EOF
	}
	n, err := t.from.Read(p)
	if err != nil && n == 0 && len(p) > 0 {
		t.ended = true
		p[0] = 'D' & 0x1f
		return 1, nil
	}
	return n, nil
}

// gated waits for ready before it reads. Reading begins once the terminal is
// raw: what a read finds that began before is what the line editor left.
type gated struct {
	ready <-chan struct{}
	from  io.Reader
}

func (g *gated) Read(p []byte) (int, error) {
	<-g.ready
	return g.from.Read(p)
}
