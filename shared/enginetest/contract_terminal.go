package enginetest

import (
	"time"

	"github.com/creack/pty"

	"github.com/sbxhost/sbxhost/shared"
)

// hostTerminal gives a command a terminal, resizes it, and types ^C.
func hostTerminal(s *scene) {
	sandbox := s.open()
	master, slave, err := pty.Open()
	s.must(err)
	defer master.Close()
	defer slave.Close()
	s.must(pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 80}))
	shows := func(want string) {
		master.SetReadDeadline(time.Now().Add(s.patience()))
		if shown, err := readUntil(master, want); err != nil {
			s.failf("the terminal does not show %q but %q: %v", want, shown, err)
		}
	}
	start := func(text, shown string) shared.Process {
		cmd := s.sh("test -t 0 && test -t 1 && test -t 2 && : </dev/tty && " + text + forever)
		cmd.TTY = true
		p, err := sandbox.Start(s.ctx, cmd, shared.Stdio{Stdin: slave, Stdout: slave, Stderr: slave})
		s.must(err)
		shows(shown)
		return p
	}
	p := start("trap 'stty size; exit 8' WINCH && stty size", "24 80")
	s.must(pty.Setsize(master, &pty.Winsize{Rows: 30, Cols: 100}))
	shows("30 100")
	s.endsBy(p, shared.ExitStatus{Code: 8})
	// Job control: what is typed reaches the command as a signal.
	p = start("trap 'exit 9' INT && echo typing", "typing")
	_, err = master.Write([]byte{3})
	s.must(err)
	s.endsBy(p, shared.ExitStatus{Code: 9})
}
