package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// progress is what -test.v tells of tests that have not failed.
var progress = regexp.MustCompile(`(?m)^ *(=== (RUN|PAUSE|CONT)|--- PASS) .*\n`)

// Again runs the test once more, by this program with more variables, in a user namespace
// and the others that are named (unix.CLONE_NEWNET), as that user of it. The variables have
// to tell the test where it is. It is skipped if it is there, and where nobody may make
// such namespaces, unless SBXHOST_REQUIRE lists namespaces.
func Again(t *testing.T, namespaces uintptr, uid int, env ...string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=40m")
	if testing.Short() {
		cmd.Args = append(cmd.Args, "-test.short")
	}
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | namespaces, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Getegid(), Size: 1}},
	}
	// The parent-death signal comes when the thread ends, and threads end with what tests lock to them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	required := slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "namespaces")
	switch refused := errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC); {
	case refused && !required:
		t.Skipf("no namespaces here: %v", err)
	case err == nil && strings.Contains(string(out), "--- SKIP: "+t.Name()+" "):
		t.Skipf("%s", out)
	case err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" "):
		t.Fatalf("%q: %v\n%s", env, err, progress.ReplaceAll(out, nil))
	}
}

// Loopback brings the loopback device up with more networks. Each is local as a whole, and
// the address that is named is the one of its own.
func Loopback(t testing.TB, networks ...netip.Prefix) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	set := func(device string, request uint, fill func(*unix.Ifreq) error) {
		r, err := unix.NewIfreq(device)
		if err == nil {
			err = fill(r)
		}
		if err == nil {
			err = unix.IoctlIfreq(fd, request, r)
		}
		if err != nil {
			t.Fatalf("%s: %v", device, err)
		}
	}
	set("lo", unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil })
	for i, network := range networks {
		device := fmt.Sprintf("lo:%d", i)
		set(device, unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(network.Addr().AsSlice()) })
		set(device, unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr(net.CIDRMask(network.Bits(), 32)) })
	}
}
