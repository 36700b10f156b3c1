package sandboxinit

import (
	"bufio"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

func TestTTY(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		for _, limits := range limitSets {
			master, slave, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer master.Close()
			if err := pty.Setsize(master, &pty.Winsize{Rows: 33, Cols: 77}); err != nil {
				t.Fatal(err)
			}
			s := w.launch(t, slave, true)
			slave.Close()
			// Without noflsh the terminal discards output after it has sent SIGINT,
			// the handler's too if that is quick.
			cmd := sh(`stty noflsh -echo
[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo three ttys
echo hello >/dev/tty
stty size
trap 'stty size; echo resized' WINCH
trap 'echo interrupted; exit 8' INT
echo ready; while :; do sleep 0.01; done`)
			cmd.TTY, cmd.Rlimits = true, limits
			s.start(t, cmd)
			lines := bufio.NewScanner(master)
			expect := func(want string) {
				t.Helper()
				if !lines.Scan() {
					t.Fatalf("terminal closed before %q: %v", want, lines.Err())
				}
				if got := strings.TrimSpace(lines.Text()); got != want {
					t.Errorf("terminal shows %q, want %q", got, want)
				}
			}
			expect("three ttys")
			expect("hello")
			expect("33 77")
			expect("ready")
			if err := pty.Setsize(master, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
				t.Fatal(err)
			}
			expect("40 120")
			expect("resized")
			if _, err := io.WriteString(master, "\x03"); err != nil {
				t.Fatal(err)
			}
			expect("interrupted")
			if status, err := s.Wait(); err != nil || status.Code != 8 {
				t.Errorf("%+v, %v", status, err)
			}
		}
	})
}

// Closing the terminal hangs the command up, as it does outside.
func TestTTYHangup(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		master, slave, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		s := w.launch(t, slave, true)
		slave.Close()
		cmd := sh("sleep 1000")
		cmd.TTY = true
		s.start(t, cmd)
		master.Close()
		if status, err := s.Wait(); err != nil || status.Signal != int(syscall.SIGHUP) {
			t.Errorf("%+v, %v", status, err)
		}
	})
}

// A terminal that controls another session cannot be taken over.
func TestTTYInUse(t *testing.T) {
	each(t, func(t *testing.T, w way) {
		if w.launcher == nil && syscall.Getuid() == 0 {
			return // root may steal it
		}
		master, slave, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer master.Close()
		defer slave.Close()
		owner := w.launch(t, slave, true)
		cmd := sh("sleep 1000")
		cmd.TTY = true
		owner.start(t, cmd)
		thief := w.launch(t, slave, true)
		x := asExecError(t, thief.Start(t.Context(), cmd))
		if x.Op != OpTTY || x.Errno != syscall.EPERM {
			t.Errorf("%v", x)
		}
	})
}
