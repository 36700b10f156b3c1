package stdio

import (
	"bufio"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func newTerminal(t *testing.T, size TerminalSize) *terminal {
	t.Helper()
	p, err := openTerminal(size, os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

func TestPTY(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ size, want TerminalSize }{
		{TerminalSize{}, TerminalSize{Rows: 24, Cols: 80}},
		{TerminalSize{Rows: 7, Cols: 300}, TerminalSize{Rows: 7, Cols: 300}},
	} {
		p := newTerminal(t, tt.size)
		size, err := unix.IoctlGetWinsize(int(p.slave.Fd()), unix.TIOCGWINSZ)
		if err != nil || size.Row != tt.want.Rows || size.Col != tt.want.Cols {
			t.Errorf("%+v: %+v, %v", tt.size, size, err)
		}
		// ^? erases both bytes of the character.
		if _, err := io.WriteString(p.master, "a\u00e4\x7fb\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(p.slave).ReadString('\n'); line != "ab\n" || err != nil {
			t.Errorf("%q, %v", line, err)
		}
	}
}

// Closing the terminal ends a read of its output and a write of its input, and
// hangs up.
func TestPTYCloses(t *testing.T) {
	t.Parallel()
	p := newTerminal(t, TerminalSize{})
	slave, err := os.OpenFile(p.slave.Name(), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	read, wrote := make(chan error), make(chan error)
	go func() {
		_, err := terminalReader{p}.Read(make([]byte, 1))
		read <- err
	}()
	go func() {
		_, err := io.Copy(p.master, endless{}) // nobody reads it
		wrote <- err
	}()
	p.close()
	for _, ended := range []chan error{read, wrote} {
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("does not end")
		}
	}
	if _, err := slave.Write([]byte("x")); !errors.Is(err, unix.EIO) {
		t.Errorf("the other end is not hung up: %v", err)
	}
}

// What holds the terminal open does not hold up the end, and nothing is lost.
func TestPTYEnded(t *testing.T) {
	t.Parallel()
	p := newTerminal(t, TerminalSize{})
	got := make(chan string, 1)
	go func() {
		text, err := io.ReadAll(terminalReader{p})
		if err != nil {
			t.Error(err)
		}
		got <- string(text)
	}()
	if _, err := p.slave.WriteString("the last words"); err != nil {
		t.Fatal(err)
	}
	p.ended()
	select {
	case text := <-got:
		if text != "the last words" {
			t.Errorf("%q", text)
		}
	case <-time.After(time.Minute):
		t.Fatal("does not end")
	}
}

// What is there when the time is up is read still.
func TestPTYIsDrained(t *testing.T) {
	t.Parallel()
	p := newTerminal(t, TerminalSize{})
	if _, err := p.slave.WriteString("the last words"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	p.master.SetReadDeadline(time.Now().Add(-time.Second))
	if n, err := p.master.Read(b); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Go's Read gives %d, %v", n, err)
	}
	if n, err := p.waiting(b); string(b[:n]) != "the last words" || err != nil {
		t.Errorf("%q, %v", b[:n], err)
	}
	if n, err := p.waiting(b); n != 0 || err != io.EOF {
		t.Errorf("then %d, %v", n, err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// Where output cannot be written any more, the command is hung up.
func TestPTYHangsUp(t *testing.T) {
	t.Parallel()
	p := newTerminal(t, TerminalSize{})
	if _, err := p.slave.WriteString("output\n"); err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	defer write.Close()
	if _, err := io.Copy(write, terminalReader{p}); !errors.Is(err, unix.EPIPE) {
		t.Errorf("%v", err)
	}
	if _, err := p.slave.WriteString("more\n"); !errors.Is(err, unix.EIO) {
		t.Errorf("the other end is not hung up: %v", err)
	}
}

// Who goes on writing to the terminal of a command that has ended keeps nobody waiting.
func TestPTYOfManyWords(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]time.Duration{"slowly": 20 * time.Millisecond, "fast": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTerminal(t, TerminalSize{})
			stop := make(chan struct{})
			defer close(stop)
			go func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(pause):
					}
					if _, err := io.WriteString(p.slave, "word\n"); err != nil {
						return
					}
				}
			}()
			if _, err := (terminalReader{p}).Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			copied := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, terminalReader{p})
				copied <- err
			}()
			p.ended()
			select {
			case err := <-copied:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(20 * time.Second):
				t.Error("the copy goes on")
			}
		})
	}
}
