package cgroup

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// direct gives the places of this machine, and skips where there are none, unless
// the environment says that there must be.
func direct(t *testing.T) Host {
	t.Helper()
	h := Look()
	if len(h.Places) == 0 {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "cgroup") {
			t.Fatal("cgroup is required, and no group can be made here")
		}
		t.Skip("no group can be made here")
	}
	return h
}

// start starts a chain of n+1 processes in g and returns once all of them run. Unless
// born is set, it fails as without clone3 what would make them be born there.
func start(t *testing.T, n int, g *Group, born bool) (cmd *exec.Cmd, stop func()) {
	t.Helper()
	cmd = exec.Command("/proc/self/exe", sleeperArg, strconv.Itoa(n))
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(cmd.SysProcAttr, func() error {
		if !born && cmd.SysProcAttr.UseCgroupFD {
			return unix.ENOSYS
		}
		return cmd.Start()
	}); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd, func() { in.Close(); io.Copy(io.Discard, out); cmd.Wait() }
}

func procs(t *testing.T, dir string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

func absentDir(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there (%v)", dir, err)
	}
}

// What a process has forked before it was added, to the last generation, is in the group.
func TestAddTakesDescendants(t *testing.T) {
	t.Parallel()
	h := direct(t)
	d := h.Decide(Limits{Memory: 512 << 20, CPUs: 2, PIDs: 500})
	g, err := d.New()
	if err != nil {
		t.Fatal(err)
	}
	cmd, stop := start(t, 3, g, true)
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Error(err)
	}
	var dirs []string
	for _, m := range g.members {
		dirs = append(dirs, m.group)
		if got := procs(t, m.group); len(got) != 4 || !slices.Contains(got, strconv.Itoa(cmd.Process.Pid)) {
			t.Errorf("%s has %q, want 4 processes", m.group, got)
		}
	}
	if g.Killed() != 0 {
		t.Errorf("%d were killed", g.Killed())
	}
	// Others leave it alone while its owner lives.
	h.Sweep()
	for _, dir := range dirs {
		if len(procs(t, dir)) != 4 {
			t.Errorf("%s was swept", dir)
		}
	}
	// Also what would not end by itself ends with the group.
	g.Remove()
	for _, dir := range dirs {
		absentDir(t, dir)
	}
	stop()
}

func TestLimitsAreWritten(t *testing.T) {
	t.Parallel()
	h := direct(t)
	g, err := h.Decide(Limits{Memory: 64 << 20, CPUs: 1.5, PIDs: 42}).New()
	if err != nil {
		t.Fatal(err)
	}
	defer g.Remove()
	want := map[string]string{"memory.limit_in_bytes": "67108864", "memory.max": "67108864", "pids.max": "42",
		"cpu.max": "150000 100000", "cpu.cfs_quota_us": "150000"}
	for _, m := range g.members {
		for _, c := range m.Controllers {
			name := Limits{}.settings(m.Version, c)[0].file
			text, err := os.ReadFile(filepath.Join(m.group, name))
			if err != nil || strings.TrimSpace(string(text)) != want[name] {
				t.Errorf("%s: %q, %v; want %s", name, text, err, want[name])
			}
		}
	}
}

// Where a group around has less time, as in a container, that is what holds.
func TestLessTimeAround(t *testing.T) {
	t.Parallel()
	g, err := direct(t).Decide(Limits{CPUs: 1}).New()
	if err != nil {
		t.Fatal(err)
	}
	defer g.Remove()
	for _, m := range g.members {
		if err := (Limits{CPUs: 0.5}).write(m.Version, m.group, CPU); err != nil {
			t.Fatal(err)
		}
		inner := filepath.Join(m.group, "inner")
		if err := os.Mkdir(inner, 0o755); err != nil {
			t.Fatal(err)
		}
		defer unix.Rmdir(inner)
		if _, err := os.Lstat(filepath.Join(inner, Limits{}.settings(m.Version, CPU)[0].file)); errors.Is(err, fs.ErrNotExist) {
			continue // version 2 has nothing there until it is asked for
		}
		if err := (Limits{CPUs: 1.5}).write(m.Version, inner, CPU); err != nil {
			t.Error(err)
		}
	}
}

// A group whose owner is dead is removed by the next sweep, with who is in it.
func TestSweep(t *testing.T) {
	t.Parallel()
	h := direct(t)
	g, err := h.Decide(Limits{PIDs: 500, Memory: 512 << 20}).New()
	if err != nil {
		t.Fatal(err)
	}
	cmd, stop := start(t, 1, g, true)
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, m := range g.members {
		dirs = append(dirs, m.group)
		m.lock.Close() // as the death of the owner does
	}
	for _, dir := range dirs {
		// Another test's engine may be at it, or another test's child, until it executes
		// its program, have a copy of the lock.
		for deadline := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
			h.Sweep()
			if _, err := os.Stat(dir); os.IsNotExist(err) {
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("%s is still there (%v)", dir, err)
			}
		}
	}
	stop()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Errorf("the process that was left: %v", cmd.ProcessState)
	}
}

// TestBornInside places a process by the clone flag of version 2. Where no
// controller is to be had in that version, as on hybrid systems, the group limits nothing.
func TestBornInside(t *testing.T) {
	t.Parallel()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	dir := ""
	for _, tree := range hierarchies(string(mounts), string(groups)) {
		if tree.version == 2 && unix.Access(filepath.Join(tree.ownGroup, "cgroup.procs"), unix.W_OK) == nil {
			dir = tree.ownGroup
			break
		}
	}
	if dir == "" {
		t.Skip("no group of version 2 is this process's to divide")
	}
	d := Decision{parts: []Place{{Version: 2, Dir: dir}}}
	g, err := d.New()
	if err != nil {
		t.Fatal(err)
	}
	_, stop := start(t, 2, g, true)
	if got := procs(t, g.members[0].group); len(got) != 3 {
		t.Errorf("the group has %q, want 3 processes", got)
	}
	stop()

	cmd, stop := start(t, 2, g, false)
	if got := procs(t, g.members[0].group); len(got) != 0 {
		t.Errorf("the group has %q already", got)
	}
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Error(err)
	}
	if got := procs(t, g.members[0].group); len(got) != 3 || !slices.Contains(got, strconv.Itoa(cmd.Process.Pid)) {
		t.Errorf("the group has %q, want 3 processes", got)
	}
	stop()
	name := g.members[0].group
	g.Remove()
	absentDir(t, name)
}

// A tree of plain files stands for a machine of which this one is none: what counts
// is which files are written, and with what.
func TestVersion2Files(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"memory.max", "memory.swap.max", "cpu.max", "pids.max"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := present(2, dir); !slices.Equal(got, []Controller{Memory, CPU, PIDs}) {
		t.Errorf("present: %q", got)
	}
	l := Limits{Memory: 1 << 30, CPUs: 0.001, PIDs: 7}
	for _, c := range l.needs() {
		if err := l.write(2, dir, c); err != nil {
			t.Error(err)
		}
	}
	for name, want := range map[string]string{"memory.max": "1073741824", "memory.swap.max": "0", "cpu.max": "1000 100000", "pids.max": "7"} {
		if got, _ := os.ReadFile(filepath.Join(dir, name)); string(got) != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	g := &Group{members: []member{{Place: Place{Version: 2}, group: dir}}}
	if cpu, memory := g.Usage(); cpu != 0 || memory != 0 {
		t.Errorf("usage of a group that tells nothing: %v, %d", cpu, memory)
	}
	for name, text := range map[string]string{"memory.peak": "4096\n", "cpu.stat": "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if cpu, memory := g.Usage(); cpu != 1500*time.Microsecond || memory != 4096 {
		t.Errorf("usage: %v, %d", cpu, memory)
	}
	if err := l.write(2, filepath.Join(dir, "absent"), Memory); err == nil {
		t.Error("a group that is not there was given a limit")
	}
}

// What can be used here does not depend on who sweeps at the moment.
func TestLookWhileOthersSweep(t *testing.T) {
	h := direct(t)
	var sweeping sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range 4 {
		sweeping.Go(func() {
			for ctx.Err() == nil {
				h.Sweep()
			}
		})
	}
	for range 300 {
		if got := Look(); !reflect.DeepEqual(got, h) {
			t.Errorf("got %+v, want %+v", got, h)
			break
		}
	}
	stop()
	sweeping.Wait()
}

// Beside a group of version 1, wherever that is mounted, the group of version 2 is not the command's to see.
func TestGroupsHierarchies(t *testing.T) {
	t.Parallel()
	group := func(places ...Place) *Group {
		g := &Group{}
		for _, place := range places {
			g.members = append(g.members, member{Place: place})
		}
		return g
	}
	two := Place{Version: 2, Dir: "/sys/fs/cgroup/unified/a"}
	for _, tt := range []struct {
		group *Group
		want  []string
	}{
		{&Group{}, nil},
		{group(two), []string{"cgroup2"}},
		{group(two, Place{Version: 1, Dir: "/sys/fs/cgroup/cpu,cpuacct/a"}), []string{"cpu,cpuacct"}},
		{group(two, Place{Version: 1, Dir: "/cgroup/memory/a"}), nil},
	} {
		if got := tt.group.Hierarchies(); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %q, and not %q", tt.group, got, tt.want)
		}
	}
}
