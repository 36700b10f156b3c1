package docker

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/shared"
)

// openPTY is a host's terminal pair.
func openPTY(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// TestTerminal gives a command the host's terminal: its size and changes of it,
// and the interrupt that is typed, reach the command.
func TestTerminal(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{})
	master, slave := openPTY(t)
	size := func(rows uint16) {
		t.Helper()
		if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: 90}); err != nil {
			t.Fatal(err)
		}
	}
	size(30)
	cmd := script(`trap 'stty size; echo sized' WINCH; trap 'echo interrupted; exit 4' INT
		test -t 0 && test -t 1 && echo terminal; stty size; while :; do sleep 0.05; done`)
	cmd.TTY = true
	p, err := s.Start(t.Context(), cmd, shared.Stdio{Stdin: slave, Stdout: slave, Stderr: slave})
	slave.Close()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(master)
	expect := func(want string) {
		t.Helper()
		if !lines.Scan() || !strings.HasSuffix(strings.TrimSpace(lines.Text()), want) {
			t.Fatalf("got %q, %v; want %q", lines.Text(), lines.Err(), want)
		}
	}
	expect("terminal")
	expect("30 90")
	size(40)
	expect("40 90")
	expect("sized") // or the interrupt would be stty's
	if _, err := master.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	expect("interrupted")
	if got := wait(t, p); got.Status.Code != 4 {
		t.Errorf("got %+v", got)
	}
}

func TestInitMustBeStatic(t *testing.T) {
	t.Parallel()
	if err := checkInit("/bin/sh"); err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("a dynamic program: %v", err)
	}
	if err := checkInit("/etc/passwd"); err == nil {
		t.Error("what is no program is taken for an init")
	}
	dir, err := initDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := checkInit(dir + "/sbxhost-init"); err != nil {
		t.Error(err)
	}
}
