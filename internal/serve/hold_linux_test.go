package serve

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
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

// The process that listens has the lock, and whoever has the lock listens.
func TestHolderOf(t *testing.T) {
	t.Parallel()
	dir := private(t)
	listenAt(t, dir)
	if h, err := HolderOf(dir); err != ErrAbsent {
		t.Errorf("without a lock: %+v, %v", h, err)
	}
	l, err := Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	h, err := HolderOf(dir)
	if err != nil || h.PID != os.Getpid() || h.Socket != filepath.Join(dir, Socket) {
		t.Fatalf("got %+v, %v", h, err)
	}
	h.Close()
	if _, err := Hold(dir); err != ErrServed {
		t.Errorf("a second one: %v", err)
	}
	if err := Remove(dir); err != ErrServed {
		t.Errorf("it is removed while it is held: %v", err)
	}
	l.Release()
	if h, err := HolderOf(dir); err != ErrAbsent {
		t.Errorf("after its release: %+v, %v", h, err)
	}
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after its removal: %v", err)
	}
	if err := Remove(dir); err != nil {
		t.Errorf("again: %v", err)
	}
}

// After an upgrade, the server of a session can be of a version with another welcome.
func TestEndSessionOfAnotherVersion(t *testing.T) {
	t.Parallel()
	dir := private(t)
	l, err := Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	h, err := HolderOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	asked := make(chan byte, 1)
	go func() {
		defer close(asked)
		for range 2 {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			raw, err := conn.SyscallConn()
			if err != nil {
				return
			}
			server := frame.Over(raw)
			server.Write(KindWelcome, Empty{})
			if kind, _, err := server.Next(MaxMessage); err == nil {
				asked <- kind
				reason := Reason("")
				server.Write(kind, &reason)
			}
			server.Discard()
			conn.Close()
		}
	}()
	if err := h.EndSession(); err != nil {
		t.Errorf("it does not end: %v", err)
	}
	if kind := <-asked; kind != KindSession {
		t.Errorf("the server was asked for %q", kind)
	}
}

// The directory of a server goes with a login, and another server makes it again.
func TestLostLock(t *testing.T) {
	t.Parallel()
	dir := private(t)
	first, err := Hold(dir)
	if err != nil || first.Lost() {
		t.Fatalf("it is lost at first, or %v", err)
	}
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	second, err := Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Release()
	if !first.Lost() {
		t.Error("it is not lost")
	}
	first.Release()
	if second.Lost() {
		t.Error("it has removed the other's socket")
	}
}
