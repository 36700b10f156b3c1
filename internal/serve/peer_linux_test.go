package serve

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/confine"
	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/internal/wire"
)

// TestMain is the client of the tests, too: it connects and waits.
func TestMain(m *testing.M) {
	if server := os.Getenv("SERVE_ANSWER"); server != "" {
		runtime.LockOSThread() // which alone is confined
		var err error
		switch os.Getenv("SERVE_CONFINED") {
		case "landlock":
			err = (&confine.Landlock{Handled: unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK}).Enter()
		case "seccomp":
			err = confine.Filter(binary.NativeEndian.AppendUint64(nil, unix.BPF_RET|unix.SECCOMP_RET_ALLOW<<32))
		}
		if err != nil {
			os.Exit(1)
		}
		fd, _ := strconv.Atoi(os.Getenv("SERVE_FD"))
		secret, err := secretOf(server, fd)
		fmt.Print(secret, err)
		os.Exit(0)
	}
	if path := os.Getenv("SERVE_DIAL"); path != "" {
		conn, err := net.Dial("unix", path)
		if err != nil {
			os.Exit(1)
		}
		conn.Read(make([]byte, 1))
		os.Exit(0)
	}
	if os.Getenv("SERVE_END") != "" {
		EndBy(unix.SIGINT, 130)
		os.Exit(130)
	}
	os.Exit(m.Run())
}

// The first process of a container cannot die of its own signal, and has the command's status.
func TestEndBy(t *testing.T) {
	one := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	for name, attr := range map[string]*syscall.SysProcAttr{
		"signal: interrupt": {},
		"exit status 130":   {Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID, UidMappings: one},
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.SysProcAttr = append(os.Environ(), "SERVE_END=1"), attr
		if err := cmd.Run(); err == nil || err.Error() != name {
			t.Errorf("%v, want %s", err, name)
		}
	}
}

// listen opens a socket, and gives who looks at its clients.
func listen(t *testing.T) (own Identity, l *net.UnixListener, path string) {
	t.Helper()
	own, err := ThisProcess()
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
		root                 bool
	}{
		{name: "the same"},
		{name: "a umask", shell: "umask 0177"},
		{name: "limits", shell: "ulimit -c 0 && ulimit -v 100000000"},
		{name: "a priority", shell: "renice -n 5 $$ >/dev/null"},
		{name: "fewer processors", shell: "taskset -p 1 $$ >/dev/null"},
		{name: "sooner killed", shell: "echo 500 >/proc/self/oom_score_adj"},
		{name: "fewer files", shell: "ulimit -n 500", differs: "open files limit"},
		{name: "the idle disk", shell: "ionice -c 3 -p $$", differs: "scheduling"},
		{name: "another policy", shell: "chrt -b -p 0 $$ >/dev/null", differs: "scheduling"},
		{name: "no_new_privs", shell: "exec setpriv --no-new-privs \"$0\"", differs: "no_new_privs"},
		{name: "fewer capabilities", shell: "exec setpriv --bounding-set -sys_time \"$0\"", differs: "status Cap", root: true},
		{name: "another group", shell: "exec setpriv --groups 12345 \"$0\"", differs: "status Groups", root: true},
		{name: "a user namespace", attr: in(0), differs: "ns/user"},
		{name: "a network namespace", attr: in(syscall.CLONE_NEWNET), differs: "ns/net"},
		{name: "a mount namespace", attr: in(syscall.CLONE_NEWNS), differs: "ns/mnt"},
		{name: "a pid namespace", attr: in(syscall.CLONE_NEWPID), differs: "ns/pid"},
		{name: "a cgroup namespace", attr: in(syscall.CLONE_NEWCGROUP), differs: "ns/cgroup"},
	} {
		if c.root && os.Geteuid() != 0 {
			continue
		}
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
			if err := raw.Control(func(fd uintptr) {
				var p Peer
				if p, same = Look(int(fd), own); same == nil {
					same = p.Apart // which is Confined, if it is that
				}
			}); err != nil {
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

// Only a process that is not confined by Landlock, or exactly like the server, learns the server's
// secret.
func TestChallenge(t *testing.T) {
	t.Parallel()
	c, err := NewChallenge()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for confinement, met := range map[string]bool{"": true, "seccomp": true, "landlock": false} {
		cmd := exec.Command("setpriv", "--no-new-privs", os.Args[0])
		cmd.Env = append(os.Environ(), "SERVE_ANSWER=/proc/"+strconv.Itoa(os.Getpid()), "SERVE_FD="+strconv.Itoa(int(*c.Number())), "SERVE_CONFINED="+confinement)
		answer, err := cmd.Output()
		if err != nil && confinement != "" {
			t.Logf("no %s here", confinement)
			continue
		}
		if why := c.Unmet(&Hello{Secret: strings.TrimSuffix(string(answer), "<nil>")}); met != (why == "") {
			t.Errorf("%q: %s %q", confinement, answer, why)
		}
	}
	if c.Unmet(&Hello{}) == "" {
		t.Error("no answer is right")
	}
}

// killed is a connection of a client that was killed, and that nobody has reaped before reap.
func killed(t *testing.T) (own Identity, conn syscall.RawConn, reap func() error) {
	t.Helper()
	own, l, path := listen(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SERVE_DIAL="+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Wait() })
	accepted, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	cmd.Process.Kill()
	proc.Await(cmd.Process.Pid)
	if conn, err = accepted.SyscallConn(); err != nil {
		t.Fatal(err)
	}
	return own, conn, cmd.Wait
}

// A process that has ended, whose number may be anybody's by now, is not served.
func TestSameOfTheDead(t *testing.T) {
	t.Parallel()
	own, conn, reap := killed(t)
	reap()
	var same error
	if err := conn.Control(func(fd uintptr) { _, same = Look(int(fd), own) }); err != nil || same == nil {
		t.Errorf("it is served: %v", err)
	}
}

// A server that is at its end, and whose socket is still there, is absent: it is no other program.
func TestGenuineOfTheDying(t *testing.T) {
	t.Parallel()
	_, conn, _ := killed(t)
	var genuine error
	if err := conn.Control(func(fd uintptr) { genuine = Genuine(int(fd), os.Args[0]) }); err != nil || genuine != ErrAbsent {
		t.Errorf("%v, %v", genuine, err)
	}
}

// What a command is given is what its client has, and never more than the server has.
func TestUsage(t *testing.T) {
	t.Parallel()
	own, err := ThisProcess()
	if err != nil {
		t.Fatal(err)
	}
	u, err := own.usage(fmt.Sprint("/proc/", os.Getpid()))
	if err != nil || len(u.CPUs) == 0 || len(u.Limits) != resources {
		t.Fatalf("%+v, %v", u, err)
	}
	for name, c := range map[string]struct {
		change func(u *wire.Usage)
		cannot string
	}{
		"the same": {func(*wire.Usage) {}, ""},
		"fewer locks": {func(u *wire.Usage) {
			u.Limits[unix.RLIMIT_LOCKS] = wire.Limit{Resource: unix.RLIMIT_LOCKS, Soft: 7, Hard: 9}
		}, ""},
		"more of a limit":   {func(u *wire.Usage) { u.Limits[unix.RLIMIT_NICE].Hard++ }, "limits"},
		"fewer files":       {func(u *wire.Usage) { u.Limits[unix.RLIMIT_NOFILE].Hard-- }, "open files limit"},
		"more files":        {func(u *wire.Usage) { u.Limits[unix.RLIMIT_NOFILE].Hard++ }, "open files limit"},
		"killed sooner":     {func(u *wire.Usage) { u.OOMScoreAdj++ }, ""},
		"killed later":      {func(u *wire.Usage) { u.OOMScoreAdj-- }, "oom_score_adj"},
		"a lower priority":  {func(u *wire.Usage) { u.Nice++ }, ""},
		"a higher priority": {func(u *wire.Usage) { u.Nice-- }, "nice"},
	} {
		other := u
		other.Limits = slices.Clone(u.Limits)
		c.change(&other)
		if what := own.cannotGive(&other); what != c.cannot {
			t.Errorf("%s: cannot give %q", name, what)
		}
	}
}

// What a client may use is what the kernel says of the client.
func TestUsageOfClient(t *testing.T) {
	t.Parallel()
	own, err := ThisProcess()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "ulimit -f 7 && taskset -p 1 $$ >/dev/null && echo && read -r x")
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	u, err := own.usage(fmt.Sprint("/proc/", cmd.Process.Pid))
	if size := int64(7 << 9); err != nil || !slices.Equal(u.CPUs, []int{0}) || u.Limits[unix.RLIMIT_FSIZE] != (wire.Limit{Resource: unix.RLIMIT_FSIZE, Soft: size, Hard: size}) {
		t.Errorf("%+v, %v", u, err)
	}
}
