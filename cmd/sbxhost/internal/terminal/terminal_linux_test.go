package terminal

import (
	"os"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

func newOuter(t *testing.T, wanted bool) (outer *Outer, master, slave *os.File) {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		master.Close()
		slave.Close()
	})
	return Open(slave, wanted), master, slave
}

func modesOf(t *testing.T, f *os.File) unix.Termios {
	t.Helper()
	modes, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *modes
}

// What was typed for the command and not read is not left to the shell.
func TestRestoredWithoutWhatWasTyped(t *testing.T) {
	t.Parallel()
	outer, master, slave := newOuter(t, false)
	was := modesOf(t, slave)
	if err := outer.Raw(); err != nil || !outer.IsRaw() || modesOf(t, slave) == was {
		t.Fatalf("not raw: %v", err)
	}
	if _, err := master.WriteString("rm -rf build\r"); err != nil {
		t.Fatal(err)
	}
	for waiting := 0; waiting < len("rm -rf build\r"); {
		var err error
		if waiting, err = unix.IoctlGetInt(int(slave.Fd()), unix.TIOCINQ); err != nil {
			t.Fatal(err)
		}
	}
	outer.Restore()
	if modesOf(t, slave) != was || outer.IsRaw() {
		t.Error("not restored")
	}
	fd := int(slave.Fd())
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	if n, err := unix.Read(fd, b); err != unix.EAGAIN {
		t.Errorf("there is %q, %v", b[:max(n, 0)], err)
	}
}

// A terminal that is raw already is another program's, unless a person says otherwise.
func TestRawTerminalOfOthers(t *testing.T) {
	t.Parallel()
	for _, wanted := range []bool{false, true} {
		first, _, slave := newOuter(t, false)
		if err := first.Raw(); err != nil {
			t.Fatal(err)
		}
		second := Open(slave, wanted)
		if err := second.Raw(); (err == ErrBackground) == wanted {
			t.Errorf("wanted %v: %v", wanted, err)
		}
		second.Restore()
		first.Restore()
		if modesOf(t, slave).Lflag&unix.ICANON == 0 {
			t.Errorf("wanted %v: the terminal is left raw", wanted)
		}
	}
}
