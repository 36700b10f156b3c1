package holder

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/testing/confined"
)

// joinEnv makes the test binary a client of the holder of a session's directory. It prints "joined"
// or an error, and waits for the end of its standard input.
const (
	joinEnv  = "HOLDER_JOIN"
	forgeEnv = "HOLDER_FORGE" // it has checks of its own, and not those of Connect
)

func joinAsChild(dir string) {
	if err := confined.Enter(); err != nil {
		fmt.Println("no confinement:", err)
		return
	}
	var err error
	if os.Getenv(forgeEnv) != "" {
		err = forge(dir)
	} else {
		_, err = Connect(context.Background(), Config{Dir: dir, Executable: self})
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("joined")
	io.Copy(io.Discard, os.Stdin)
}

// forge joins as a program would that somebody wrote for it.
func forge(dir string) error {
	at, err := directory(Config{Dir: dir}, os.Geteuid())
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socketPath(at)}); err != nil {
		return err
	}
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return err
	}
	conn, err := frame.NewConn(fd)
	if err != nil {
		return err
	}
	if err := hello(conn); err != nil {
		return err
	}
	secret, _ := secretOf(int(cred.Pid))
	status, err := os.Open(ownStatus)
	if err != nil {
		return err
	}
	if err := conn.Write(msgProof, &proof{secret}, int(status.Fd())); err != nil {
		return err
	}
	return hello(conn)
}

// A client that is confined otherwise than the holder's starter gets no command from it, whatever
// the client's program does.
func TestConfinedClient(t *testing.T) {
	t.Parallel()
	uid := []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
	const private = `exec setpriv --no-new-privs "$0"`
	for _, c := range []struct {
		name              string
		starter, shell    string // how the starter, if it is not this process, and the client begin
		attr              *syscall.SysProcAttr
		confined, differs string
		root              bool
	}{
		{name: "the same"},
		{name: "other limits", shell: "umask 077; ulimit -c 0; ulimit -f 100000; renice -n 5 $$ >/dev/null"},
		{name: "both no_new_privs", starter: private, shell: private},
		{name: "no_new_privs", shell: private, differs: "status NoNewPrivs"},
		{name: "without no_new_privs", starter: private, differs: "status NoNewPrivs"},
		{name: "Landlock", starter: private, shell: private, confined: "landlock", differs: "look into the holder"},
		{name: "a filter", starter: private, shell: private, confined: "seccomp", differs: "status Seccomp"},
		{name: "Landlock as root", confined: "landlock", root: true, differs: "look into the holder"},
		{name: "another group", shell: `exec setpriv --regid 12345 --clear-groups "$0"`, root: true, differs: "status Gid"},
		{name: "other groups", shell: `exec setpriv --groups 12345 "$0"`, starter: `exec setpriv --groups 12346 "$0"`, root: true, differs: "status Groups"},
		{name: "fewer capabilities", shell: `exec setpriv --bounding-set -sys_time "$0"`, root: true, differs: "status Cap"},
		{name: "a network namespace", attr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}, root: true, differs: "network namespace"},
		{name: "a mount namespace", attr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}, root: true, differs: "mount namespace"},
		{name: "a user namespace", attr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: uid}, differs: "look into the holder"},
	} {
		if c.root && os.Geteuid() != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			dir := session(t)
			begin := func(shell string, attr *syscall.SysProcAttr, env ...string) (said string, end func()) {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", shell+"\nexec \"$0\"", os.Args[0])
				cmd.Env, cmd.SysProcAttr, cmd.Stderr = append(append(os.Environ(), joinEnv+"="+dir), env...), attr, os.Stderr
				in, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				said, _ = bufio.NewReader(out).ReadString('\n')
				return said, func() {
					in.Close()
					cmd.Wait()
				}
			}
			if c.starter == "" {
				connect(t, dir)
			} else {
				said, end := begin(c.starter, nil)
				defer end()
				if said != "joined\n" {
					t.Fatalf("the starter: %s", said)
				}
			}
			for _, forged := range []string{"", "1"} {
				said, end := begin(c.shell, c.attr, confined.Env+"="+c.confined, forgeEnv+"="+forged)
				end()
				switch {
				case said == fmt.Sprintf("no confinement: %v\n", syscall.ENOSYS), said == fmt.Sprintf("no confinement: %v\n", syscall.EOPNOTSUPP):
					t.Skip("a kernel without Landlock")
				case c.differs == "" && said != "joined\n":
					t.Error(said)
				case c.differs != "" && (!strings.Contains(said, CallJoin) || !strings.Contains(said, c.differs)):
					t.Errorf("%s, want %s", said, c.differs)
				}
			}
		})
	}
}
