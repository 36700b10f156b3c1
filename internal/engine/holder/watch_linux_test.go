package holder

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// insideEnv says that the test runs where it may mount, and is the host.
const insideEnv = "HOLDER_TEST_INSIDE"

// What the host mounts beneath a read-only bind is shown read-only, by the next
// command, and never as it is mounted on the host.
func TestMountedLater(t *testing.T) {
	need(t)
	if os.Getenv(insideEnv) == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestMountedLater$", "-test.v")
		cmd.Env = append(os.Environ(), insideEnv+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
		if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
			cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
			cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
		}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		t.Fatal(err)
	}
	dir := tempDir(t)
	write(t, dir+"/below/before", "")
	c := connect(t, session(t))
	ops := append(system(), Op{Kind: ReadOnlyBind, Source: dir, Dest: "/0/d"})
	const look = "cd /.tree/0/d/below; echo *; if touch made 2>/dev/null; then echo WRITTEN; fi"
	if got := sh(t, c, ops, look); got != "before\n" {
		t.Errorf("at first: %q", got)
	}
	if err := unix.Mkfifo(dir+"/begin", 0o600); err != nil {
		t.Fatal(err)
	}
	l, r, err := start(t, c, ops, "read -r line < /.tree/0/d/begin; "+look)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", dir+"/below", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/below/after", "")
	if err := os.WriteFile(dir+"/begin", []byte("now\n"), 0); err != nil {
		t.Fatal(err)
	}
	if out, _ := io.ReadAll(r); string(out) != "before\n" {
		t.Errorf("to one that ran: %q", out)
	}
	l.Wait()
	if got := sh(t, c, ops, look); got != "after\n" {
		t.Errorf("mounted: %q", got)
	}
	if err := unix.Unmount(dir+"/below", 0); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, c, ops, look); got != "before\n" {
		t.Errorf("unmounted: %q", got)
	}
}

// The devices are the host's: a command of root's must not change who may use
// them.
func TestDevicesKeepTheirModes(t *testing.T) {
	t.Parallel()
	c := connect(t, session(t))
	ops := append(system(), Op{Kind: Devices, Dest: "/0/dev"})
	got := sh(t, c, ops, "cd /.tree/0/dev; for d in null zero full random urandom tty; do if chmod 0666 $d 2>/dev/null; then echo $d; fi; done; "+
		"echo x > null && head -c 1 zero | wc -c")
	if got != "1\n" {
		t.Errorf("got %q", got)
	}
}
