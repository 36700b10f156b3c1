package bwrap

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/plugins/internal/inside"
	"github.com/sbxhost/sbxhost/shared"
)

const nestedVar = "SBXHOST_TEST_NO_NAMESPACES"

// A kernel that refuses is explained: by the probe, and by the first Start
// where nothing was probed. The refusal is real, in a user namespace of the
// test's own.
func TestNamespacesSwitchedOff(t *testing.T) {
	t.Parallel()
	needBwrap(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", `echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" -test.run '^TestInsideSwitchedOff$' -test.v`, self)
	cmd.Env = append(os.Environ(), nestedVar+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "user.max_user_namespaces is 0"); n != 2 {
		t.Errorf("the cause is named %d times, want 2:\n%s", n, out)
	}
}

// TestInsideSwitchedOff is the inner half of TestNamespacesSwitchedOff, and
// nothing elsewhere.
func TestInsideSwitchedOff(t *testing.T) {
	if os.Getenv(nestedVar) == "" {
		return
	}
	_, err := inside.TryRun(t, New(), shared.Spec{}, shared.Command{Args: []string{"/bin/true"}})
	if !errors.Is(err, shared.ErrUnusable) {
		t.Errorf("Start: %v", err)
	}
	p, perr := New().Probe(t.Context())
	if perr != nil || p.Ready || !p.Unusable || !strings.Contains(p.Fix, "sysctl") || !strings.HasPrefix(p.Facts["bwrap"], "/") {
		t.Errorf("Probe: %+v, %v", p, perr)
	}
	fmt.Println(err)
	fmt.Println(p.Reason)
}

func TestProbe(t *testing.T) {
	needBwrap(t)
	t.Setenv("TMPDIR", t.TempDir())
	e := New() // which has not looked yet
	first, err := e.Probe(t.Context())
	if err != nil || !first.Ready || !strings.Contains(first.Facts["bwrap"], "/bwrap ") {
		t.Fatalf("%+v, %v", first, err)
	}
	first.Facts["bwrap"] = "changed by the caller"
	second, err := e.Probe(t.Context())
	if err != nil || !strings.HasPrefix(second.Facts["bwrap"], "/") {
		t.Errorf("%+v, %v", second, err)
	}
	// The kernel has made a directory there that its owner may not even list.
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// What is wrong with a mount is said by name, and leaves nothing behind.
func TestRefusalsLeaveNothing(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	dir := inside.Workspace(t)
	inside.Write(t, dir+"/inner/file", "x")
	if err := os.Symlink("/oldroot/tmp", dir+"/evil"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("inner", dir+"/friendly"); err != nil {
		t.Fatal(err)
	}
	for _, destination := range []string{dir + "/new", dir + "/new/deep", dir + "/evil/made", dir + "/friendly/made", dir + "/friendly", "/usr/new"} {
		spec := shared.Spec{Table: []shared.Entry{inside.BindRW(dir), {Source: dir + "/inner", Path: destination, Why: "bind_paths[1]", Access: shared.ReadOnly}}}
		_, err := inside.TryRun(t, e, spec, shared.Command{Args: []string{"/bin/true"}})
		if !errors.Is(err, shared.ErrInvalidSpec) || !strings.HasPrefix(err.Error(), "bind_paths[1]: ") {
			t.Errorf("%s: %v", destination, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	// A launcher that commands could replace is not run.
	spec := shared.Spec{Table: []shared.Entry{{Source: "/usr", Path: "/x", Access: shared.ReadWrite, Why: "bind_paths[0]"}}}
	if _, err := e.Open(t.Context(), spec); !errors.Is(err, shared.ErrInvalidSpec) || !strings.Contains(err.Error(), "launcher") {
		t.Errorf("writable launcher: %v", err)
	}
}

func TestPlanNamesEverything(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	dir := inside.Workspace(t)
	inside.Write(t, dir+"/.env", "x")
	spec := shared.Spec{Table: append(hide(dir+"/.env"), inside.BindRW(dir)), Limits: shared.Limits{Memory: 1 << 30, BestEffort: true}}
	sandbox, err := e.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer sandbox.Close(t.Context())
	p, err := sandbox.Plan(t.Context(), shared.Command{Args: []string{"true"}, Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	argv := strings.Join(p.Argv, " ")
	for _, want := range []string{"--unshare-net", "-fd <" + dir + "> " + dir, "--file </etc/passwd> /etc/passwd", " -- <init>"} {
		if !strings.Contains(argv, want) {
			t.Errorf("argv lacks %q: %s", want, argv)
		}
	}
	whys := map[string]bool{}
	for _, m := range p.Mounts {
		whys[m.Why] = true
		if m.Why == "" {
			t.Errorf("no reason: %+v", m)
		}
	}
	if !whys["workspace"] || !whys["deny_paths[0]"] || len(p.Notes) != 1 {
		t.Errorf("%v, %q", whys, p.Notes)
	}
}
