package holder

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestEndOfClient(t *testing.T) {
	t.Parallel()
	dir := session(t)
	c := connect(t, dir)
	l, r, err := start(t, c, system(), "echo up; exec sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	io.ReadFull(r, make([]byte, 3))
	pidfd, err := unix.PidfdOpen(l.Pid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	c.Close()
	if _, err := l.Wait(); !errors.Is(err, ErrLost) {
		t.Errorf("%v", err)
	}
	if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 60_000); n != 1 {
		t.Error("the launcher lives on")
	}
	awaitEnd(dir)
}

// runs reports whether a process has not ended; who has to reap it may be slow.
func runs(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	return fields[0] != "Z" && fields[0] != "X"
}

// A holder without a session has one client, nothing on a disk, and no overlays; it ends
// with its client, and the client can wait for that.
func TestAlone(t *testing.T) {
	t.Parallel()
	c, err := Connect(t.Context(), Config{Executable: self})
	if err != nil {
		t.Fatal(err)
	}
	pid := c.holder.Pid
	if out := sh(t, c, system(), "echo up"); out != "up\n" {
		t.Errorf("got %q", out)
	}
	if where, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err == nil && where != "/" {
		t.Errorf("it works in %q", where)
	}
	if _, refused := errors.AsType[*MountError](c.Overlay(t.Context(), tempDir(t), false)); !refused {
		t.Error("there is an overlay without a session")
	}
	c.CloseAlone()
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has not ended, or was not waited for: %v", err)
	}
}

// A machine that refuses the holder's namespaces, or its program, gets an error.
func TestHolderDoesNotBegin(t *testing.T) {
	unusable := func() (*os.File, error) { return os.Open(os.DevNull) }
	for _, dir := range []string{"", session(t)} {
		c, err := Connect(t.Context(), Config{Dir: dir, Executable: unusable})
		if _, refused := errors.AsType[*MountError](err); c != nil || !refused || !errors.Is(err, ErrUnavailable) {
			t.Errorf("in %q: %v, %v", dir, c, err)
		}
	}
}
