package serve

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMain is the client of the tests, too: it connects and waits.
func TestMain(m *testing.M) {
	if path := os.Getenv("SERVE_DIAL"); path != "" {
		conn, err := net.Dial("unix", path)
		if err != nil {
			os.Exit(1)
		}
		conn.Read(make([]byte, 1))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// listen opens a socket, and gives who looks at its clients.
func listen(t *testing.T) (own Identity, l *net.UnixListener, path string) {
	t.Helper()
	own, err := Own()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "s")
	if l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return own, l, path
}

// Who is confined otherwise than the server is not served.
func TestSame(t *testing.T) {
	t.Parallel()
	own, l, path := listen(t)
	uid := []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
	in := func(flags uintptr) *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Cloneflags: flags | syscall.CLONE_NEWUSER, UidMappings: uid}
	}
	for _, c := range []struct {
		name, shell, differs string
		attr                 *syscall.SysProcAttr
	}{
		{name: "the same"},
		{name: "a umask", shell: "umask 0177", differs: "status Umask"},
		{name: "a limit", shell: "ulimit -c 0 && ulimit -v 100000000", differs: "limits"},
		{name: "a priority", shell: "renice -n 5 $$ >/dev/null", differs: "scheduling"},
		{name: "a user namespace", attr: in(0), differs: "ns/user"},
		{name: "a network namespace", attr: in(syscall.CLONE_NEWNET), differs: "ns/net"},
		{name: "a mount namespace", attr: in(syscall.CLONE_NEWNS), differs: "ns/mnt"},
		{name: "a pid namespace", attr: in(syscall.CLONE_NEWPID), differs: "ns/pid"},
		{name: "a cgroup namespace", attr: in(syscall.CLONE_NEWCGROUP), differs: "ns/cgroup"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command("/bin/sh", "-c", c.shell+"\nexec \"$0\"", os.Args[0])
			cmd.Env, cmd.SysProcAttr = append(os.Environ(), "SERVE_DIAL="+path), c.attr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			conn, err := l.AcceptUnix()
			if err != nil {
				t.Fatal(err)
			}
			raw, err := conn.SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			var same error
			if err := raw.Control(func(fd uintptr) { same = Same(int(fd), own) }); err != nil {
				t.Fatal(err)
			}
			conn.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			switch {
			case c.differs == "" && same != nil:
				t.Error(same)
			case c.differs != "" && same == nil:
				t.Error("it is served")
			case c.differs != "" && c.attr == nil && !strings.Contains(same.Error(), c.differs):
				t.Errorf("%v, want %s", same, c.differs)
			}
		})
	}
}

// A process that has ended, whose number may be anybody's by now, is not served.
func TestSameOfTheDead(t *testing.T) {
	t.Parallel()
	own, l, path := listen(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SERVE_DIAL="+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cmd.Process.Kill()
	cmd.Wait()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var same error
	if err := raw.Control(func(fd uintptr) { same = Same(int(fd), own) }); err != nil || same == nil {
		t.Errorf("it is served: %v", err)
	}
}
