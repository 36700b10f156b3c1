package serve

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// private is a directory as a server's.
func private(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "sbxhost")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func listenAt(t *testing.T, dir string) {
	l, err := net.Listen("unix", filepath.Join(dir, Socket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}

// Nobody accepts at a socket that a command has made, and its queue is full.
func TestConnectDoesNotWait(t *testing.T) {
	t.Parallel()
	dir := private(t)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(fd)
		err = errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(dir, Socket)}), unix.Listen(fd, 0))
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		var c int
		if c, err = Connect(filepath.Join(dir, Socket)); err != nil {
			break
		}
		defer unix.Close(c)
	}
	if err != ErrSilent {
		t.Errorf("got %v", err)
	}
}

func TestConnectInDirectoryOfOthers(t *testing.T) {
	t.Parallel()
	dir := private(t)
	listenAt(t, dir)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if fd, err := Connect(filepath.Join(dir, Socket)); err == nil {
		unix.Close(fd)
		t.Error("connected")
	}
}

// A lock's file names whom its writer likes. Only the process that listens has the lock.
func TestHolderOfForgedLock(t *testing.T) {
	t.Parallel()
	victim, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		victim.Kill()
		victim.Wait()
	}()
	dir := private(t)
	lock, err := Hold(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if err := lock.Listen(strconv.Itoa(victim.Pid)); err != nil {
		t.Fatal(err)
	}
	if h, err := HolderOf(dir); err == nil {
		h.Close()
		t.Errorf("process %d has the lock", h.PID)
	}
	lock.Listen("")
	listenAt(t, dir)
	h, err := HolderOf(dir)
	if err != nil || h.PID != os.Getpid() || h.Socket != filepath.Join(dir, Socket) {
		t.Fatalf("got %+v, %v", h, err)
	}
	h.Close()
	if err := victim.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the victim: %v", err)
	}
}
