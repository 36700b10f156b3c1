package contract

import (
	"time"

	"github.com/creack/pty"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// hostTerminal gives a command a terminal, resizes it, and types ^C.
func hostTerminal(s *subject) {
	sandbox := s.open()
	master, slave, err := pty.Open()
	s.Must(err)
	defer master.Close()
	defer slave.Close()
	s.Must(pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 80}))
	shows := func(want string) {
		master.SetReadDeadline(time.Now().Add(s.Patience()))
		if shown, err := scene.ReadUntil(master, want); err != nil {
			s.Failf("the terminal does not show %q but %q: %v", want, shown, err)
		}
	}
	start := func(text, shown string) shared.Process {
		cmd := s.sh("test -t 0 && test -t 1 && test -t 2 && : </dev/tty && " + text + forever)
		cmd.TTY = true
		p, err := sandbox.Start(s.Ctx, cmd, shared.Stdio{Stdin: slave, Stdout: slave, Stderr: slave})
		s.Must(err)
		shows(shown)
		return p
	}
	p := start("trap 'stty size; exit 8' WINCH && stty size", "24 80")
	s.Must(pty.Setsize(master, &pty.Winsize{Rows: 30, Cols: 100}))
	shows("30 100")
	s.endsBy(p, shared.ExitStatus{Code: 8})
	// Job control: what is typed reaches the command as a signal.
	p = start("trap 'exit 9' INT && echo typing", "typing")
	_, err = master.Write([]byte{3})
	s.Must(err)
	s.endsBy(p, shared.ExitStatus{Code: 9})
}
