package keep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/execute"
	"github.com/sbxhost/sbxhost/internal/frame"
)

// The standard error of a client that was killed is its terminal's, or its caller's: what becomes of
// its command is not told there, such as that its context was canceled.
func TestKilledClientIsToldNothing(t *testing.T) {
	t.Parallel()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours := os.NewFile(uintptr(fds[0]), "connection")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	life, gone := context.WithCancel(t.Context())
	r := &client{Conn: frame.Over(raw), gone: gone}
	r.Remote = execute.Remote{Signals: make(chan os.Signal, 1), Life: life, Stderr: &execute.Buffer{File: write}}
	fmt.Fprintln(r.Stderr, "before it begins")
	io.WriteString(r.Stderr, "as errors of a configuration are written\n")
	go r.listen()
	unix.Close(fds[1])
	<-life.Done()
	r.Settle(nil)
	fmt.Fprintln(r.Stderr, "context canceled")
	write.Close()
	if text, err := io.ReadAll(read); len(text) > 0 || err != nil {
		t.Errorf("it is told %q, %v", text, err)
	}
}

// In a directory of another user's, that user could exchange root's.
func TestListenOfRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root to give directories away")
	}
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(dir+"/theirs/own", 0o700), os.Chown(dir+"/theirs", 12345, -1), os.Mkdir(dir+"/open", 0o700), os.Chmod(dir+"/open", 0o777)); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"/theirs/sbxhost", "/theirs/own", "/theirs/own/sbxhost", "/open/sbxhost"} {
		s := &server{dir: dir + at}
		if err := s.listen(); err == nil {
			s.lock.Release()
			t.Errorf("it serves in %s", at)
		}
	}
	s := &server{dir: dir + "/ours/sbxhost"}
	if err := s.listen(); err != nil {
		t.Fatal(err)
	}
	defer s.lock.Release()
	if info, err := os.Stat(s.dir + "/serve"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
