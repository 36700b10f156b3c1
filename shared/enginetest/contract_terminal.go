package enginetest

import (
	"io"
	"os"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// typing is shell text that wants a terminal, and says so when ^C does what it should.
const typing = "test -t 0 && test -t 1 && test -t 2 && : </dev/tty && trap 'exit 9' INT"

// shows reads from a terminal until it shows a text.
func (s *scene) shows(r *os.File, want string) {
	r.SetReadDeadline(time.Now().Add(s.patience()))
	if shown, err := readUntil(r, want); err != nil {
		s.failf("the terminal does not show %q but %q: %v", want, shown, err)
	}
}

// interrupt types ^C, which reaches the command as a signal.
func (s *scene) interrupt(w io.Writer, p shared.Process) {
	_, err := w.Write([]byte{3})
	s.must(err)
	s.endsBy(p, shared.ExitStatus{Code: 9})
}

// hostTerminal gives a command a terminal, resizes it, and types ^C.
func hostTerminal(s *scene) {
	sandbox := s.open()
	t, err := openTerminal()
	s.must(err)
	defer t.close()
	s.must(t.resize(24, 80))
	start := func(cmd shared.Command) shared.Process {
		cmd.TTY = true
		p, err := sandbox.Start(s.ctx, cmd, shared.Stdio{Stdin: t.slave, Stdout: t.slave, Stderr: t.slave})
		s.must(err)
		return p
	}
	p := start(s.kit("size"))
	s.shows(t.master, "ready 24x80")
	s.must(t.resize(30, 100))
	s.shows(t.master, "24x80 30x100")
	s.wait(p)
	// Job control.
	p = start(s.sh(typing + " && echo typing" + forever))
	s.shows(t.master, "typing")
	s.interrupt(t.master, p)
}
