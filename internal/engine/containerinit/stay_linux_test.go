package containerinit_test

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/containerinit"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
)

// settle tells a pid 1 of StayArgv where it is to be found.
func (f *fetching) settle(path string) {
	f.t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	if err == nil {
		err = unix.Listen(fd, 16)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	listener := os.NewFile(uintptr(fd), path)
	defer listener.Close()
	file, err := os.OpenFile(path, unix.O_PATH, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	message, rights := containerinit.Settlement(listener, file)
	if _, _, err := f.line.WriteMsgUnix(message, rights, nil); err != nil {
		f.t.Fatal(err)
	}
}

func TestStay(t *testing.T) {
	t.Parallel()
	f := fetch(t, bwrap, containerinit.StayArgv)
	socket := filepath.Join(t.TempDir(), "s")
	f.settle(socket)
	env := []string{"PATH=/usr/bin:/bin"}
	conn, _ := f.run(1, sandboxinit.Command{Args: []string{"/bin/sh", "-c", "exit 3"}, Env: env})
	if status, err := conn.Wait(); err != nil || status.Code != 3 || f.ended() != 1 {
		t.Fatalf("got %+v, %v", status, err)
	}
	// The first engine dies with a command that tries to stay.
	lost, out := f.run(2, sandboxinit.Command{Args: []string{"/bin/sh", "-c", "trap '' TERM HUP; setsid sleep 1000 & echo up; sleep 1000"}, Env: env})
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	dial := func() *net.UnixConn {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	early := dial() // whose descriptors there lie above those that get free now
	f.line.Close()
	lost.Close()
	everything(t, out) // which ends with the last that holds it
	// The second finds the same pid 1.
	f.line = early
	conn, out = f.run(1, sandboxinit.Command{Args: []string{"/bin/sh", "-c", "all=$(cat /proc/[0-9]*/comm 2>/dev/null); echo \"$all\" | grep -c sleep; echo \"$all\" | grep -c '^cat$'"}, Env: env})
	conn.Wait()
	if got := everything(t, out); got != "0\n1\n" || f.ended() != 1 { // the control: cat has seen itself
		t.Errorf("what the first had run is there: %q", got)
	}
	// A third at once, whose command ends before the second's.
	second := f.line
	long, _ := f.run(2, sandboxinit.Command{Args: []string{"sleep", "1000"}, Env: env})
	f.line = dial()
	conn, _ = f.run(7, sandboxinit.Command{Args: []string{"true"}, Env: env})
	if status, err := conn.Wait(); err != nil || status.Code != 0 || f.ended() != 7 {
		t.Errorf("got %+v, %v", status, err)
	}
	// Once nobody can find it any more, it ends with its last command.
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	if err := long.Kill(); err != nil {
		t.Fatal(err)
	}
	if status, err := long.Wait(); err != nil || status.Signal != 9 {
		t.Errorf("got %+v, %v", status, err)
	}
	if rest, err := io.ReadAll(second); err != nil || len(rest) != containerinit.HandoverSize || containerinit.Ended(rest) != 2 {
		t.Errorf("the end: %v, %v", rest, err)
	}
	if err := f.cmd.Wait(); err != nil {
		t.Errorf("pid 1: %v", err)
	}
}
