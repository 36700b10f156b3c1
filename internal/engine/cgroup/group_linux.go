package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// Group is the group of one command, in one or more hierarchies, or a scope of systemd.
type Group struct {
	members []member
	scope   *scope
}

// member is the group's directory in one hierarchy. It is locked while it is open.
type member struct {
	Place
	group string // the path of the directory
	lock  *os.File
}

// New makes the group. It is Empty if the Decision needs none.
func (d Decision) New() (*Group, error) {
	g := &Group{}
	if d.via != nil {
		g.scope = &scope{manager: d.via, limits: d.limits, unit: newName() + ".scope"}
	}
	for _, p := range d.parts {
		m, err := newMember(p)
		if err != nil {
			g.Remove()
			return nil, err
		}
		g.members = append(g.members, m)
		for _, c := range p.Controllers {
			if err := d.limits.write(p.Version, m.group, c); err != nil {
				g.Remove()
				return nil, err
			}
		}
	}
	return g, nil
}

// Empty reports whether it has no members, and enforces nothing.
func (g *Group) Empty() bool { return g.scope == nil && len(g.members) == 0 }

// newMember makes a directory and locks it. If another engine removes it before the lock, it tries
// the next one.
func newMember(p Place) (m member, err error) {
	for range 64 { // many may sweep at this moment
		m = member{Place: p, group: filepath.Join(p.Dir, newName())}
		if err = os.Mkdir(m.group, 0o755); err == nil {
			if m.lock, err = lock(m.group); err == nil {
				return m, nil
			}
			unix.Rmdir(m.group)
		} else if !errors.Is(err, fs.ErrExist) {
			return m, err
		}
	}
	return m, fmt.Errorf("no group could be kept in %s: %w", p.Dir, err)
}

// lock opens and locks dir, so that no sweep removes it.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		// A sweep may have locked and removed it before.
		_, err = os.Lstat(dir)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// period is the time, in microseconds, over which processor time is counted: the kernel's default.
const period = 100_000

// A setting is a file of a group, with what to write into it.
type setting struct {
	file, value string
	swap        bool // one such file suffices, and not every kernel has one
}

// settings are those for the limit of a controller. The first one needs the controller.
func (l Limits) settings(version int, c Controller) []setting {
	// The kernel accepts at least a millisecond.
	quota := strconv.FormatUint(uint64(max(1000, math.Floor(l.CPUs*period))), 10)
	bytes := strconv.FormatUint(l.Memory, 10)
	switch {
	case c == PIDs:
		return []setting{{file: "pids.max", value: strconv.FormatUint(l.PIDs, 10)}}
	case c == CPU && version == 2:
		return []setting{{file: "cpu.max", value: quota + " " + strconv.Itoa(period)}}
	case c == CPU:
		return []setting{{file: "cpu.cfs_quota_us", value: quota}}
	case version == 2:
		return []setting{{file: "memory.max", value: bytes}, {file: "memory.swap.max", value: "0", swap: true}}
	}
	// Memory and swap together. A kernel that does not count swap gets none to use.
	return []setting{{file: "memory.limit_in_bytes", value: bytes}, {file: "memory.memsw.limit_in_bytes", value: bytes, swap: true}, {file: "memory.swappiness", value: "0", swap: true}}
}

func (l Limits) write(version int, dir string, c Controller) error {
	for _, s := range l.settings(version, c) {
		err := os.WriteFile(filepath.Join(dir, s.file), []byte(s.value), 0)
		switch {
		case err == nil && s.swap:
			return nil
		case err == nil, s.swap && errors.Is(err, fs.ErrNotExist):
		case s.file == "cpu.cfs_quota_us" && errors.Is(err, unix.EINVAL):
			// More than a group around this one has, as in a container, is unusable: version 1 refuses
			// it, and that group enforces the limit.
		default:
			return err
		}
	}
	return nil
}

// Directory is the group's in the hierarchy of version 2, in which a process can begin; nil if it
// has none there.
func (g *Group) Directory() *os.File {
	for _, m := range g.members {
		if m.Version == 2 {
			return m.lock
		}
	}
	return nil
}

// Hierarchies names the group's hierarchies: controllers of version 1 in their directory's form,
// such as "cpu,cpuacct", or else "cgroup2". With a group of version 1, the command's group of
// version 2 can be the engine's.
func (g *Group) Hierarchies() (names []string) {
	if g.Empty() {
		return nil
	}
	v1 := false
	for _, m := range g.members {
		if m.Version != 1 {
			continue
		}
		v1 = true
		if name, _, _ := strings.Cut(strings.TrimPrefix(m.Dir, "/sys/fs/cgroup/"), "/"); name != "" {
			names = append(names, name)
		}
	}
	if !v1 {
		return []string{"cgroup2"}
	}
	return names
}

// Start calls start with attributes that make the process begin inside the group. If that fails, as
// before Linux 5.7 or under a filter that refuses clone3, the process begins outside, and Add moves
// it.
func (g *Group) Start(attr *syscall.SysProcAttr, start func() error) error {
	dir := g.Directory()
	if dir == nil {
		return start()
	}
	attr.UseCgroupFD, attr.CgroupFD = true, int(dir.Fd())
	err := start()
	if err != nil {
		attr.UseCgroupFD, attr.CgroupFD = false, 0
		err = start()
	}
	return err
}

// Add moves pid, which must not be reaped yet, and its descendants into the group, in each hierarchy
// in which pid did not begin there. None of them may run a command's code yet. Add misses no child
// that they fork meanwhile: the child of a moved parent begins inside, and an earlier one is visible.
func (g *Group) Add(pid int) error {
	if g.scope != nil {
		return g.scope.adopt(pid)
	}
	for _, m := range g.members {
		if m.Version == 2 && has(m.group, pid) { // a new one of version 1 is empty
			continue // it began there, which saves a move
		}
		moved := map[int]bool{}
		for {
			before := len(moved)
			if err := m.add(pid, moved); err != nil {
				return err
			}
			if len(moved) == before {
				break // nobody is left, not even orphans
			}
		}
	}
	return nil
}

// has reports whether pid is in a group.
func has(group string, pid int) bool {
	return slices.Contains(strings.Fields(read(group, "cgroup.procs")), strconv.Itoa(pid))
}

// read returns the text of a file, as of a group; "" if it is missing.
func read(dir, name string) string {
	text, _ := os.ReadFile(filepath.Join(dir, name))
	return string(text)
}

// maxTree bounds the walk: a launcher forks few processes.
const maxTree = 1000

// add moves pid and its descendants, unless moved has them.
func (m member) add(pid int, moved map[int]bool) error {
	if !moved[pid] {
		if len(moved) >= maxTree {
			return fmt.Errorf("the launcher has forked more than %d processes", maxTree)
		}
		moved[pid] = true
		err := os.WriteFile(filepath.Join(m.group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
		if errors.Is(err, unix.ESRCH) {
			return nil // it has ended
		}
		if err != nil {
			return err
		}
	}
	for _, child := range proc.Children(pid) {
		if err := m.add(child, moved); err != nil {
			return err
		}
	}
	return nil
}

// Killed is how many processes the kernel has killed in the group for lack of memory. It is zero
// when a scope is gone, with its last process.
func (g *Group) Killed() uint64 {
	if g.scope != nil {
		var text [1024]byte
		n, _ := g.scope.events.ReadAt(text[:], 0) // none of a nil file
		return oomKills(string(text[:n]))
	}
	for _, m := range g.members {
		if !slices.Contains(m.Controllers, Memory) {
			continue
		}
		name := "memory.events"
		if m.Version == 1 {
			name = "memory.oom_control"
		}
		return oomKills(read(m.group, name))
	}
	return 0
}

// Usage is the use of the group's processes: processor time, and the peak of memory in bytes. Each
// is zero if no file of the group counts it. Both are zero for a scope, which ends with its last
// process.
func (g *Group) Usage() (cpu time.Duration, memory uint64) {
	for _, m := range g.members {
		number := func(name string) uint64 {
			n, _ := strconv.ParseUint(strings.TrimSpace(read(m.group, name)), 10, 64)
			return n
		}
		if m.Version == 1 {
			cpu = max(cpu, time.Duration(number("cpuacct.usage")))
			memory = max(memory, number("memory.max_usage_in_bytes"))
			continue
		}
		cpu = max(cpu, time.Duration(field(read(m.group, "cpu.stat"), "usage_usec"))*time.Microsecond)
		memory = max(memory, number("memory.peak")) // since Linux 5.19
	}
	return cpu, memory
}

// Remove ends the group's processes and removes the group. A later sweep removes a group that the
// kernel does not release in time. A scope ends by itself, with its last process.
func (g *Group) Remove() {
	for _, m := range g.members {
		empty(m.group)
		m.lock.Close()
	}
	g.members = nil
	if g.scope != nil && g.scope.events != nil {
		g.scope.events.Close()
	}
}

// oomKills finds the count in memory.events of version 2, or memory.oom_control of version 1.
func oomKills(text string) uint64 { return field(text, "oom_kill") }

// field finds a number by its name, in a file with one on each line.
func field(text, name string) uint64 {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, _ := strconv.ParseUint(f[1], 10, 64)
			return n
		}
	}
	return 0
}
