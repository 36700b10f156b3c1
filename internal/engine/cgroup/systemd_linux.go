package cgroup

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// managerStep is how often to check whether the manager has put processes into a scope: nothing
// reports it.
const managerStep = time.Millisecond

// managerPatience is how long the manager may take for that on a busy machine.
var managerPatience = 30 * time.Second

// scope is a unit of the manager with the launcher in it.
type scope struct {
	manager *Manager
	limits  Limits
	unit    string
	events  *os.File // memory.events: the group goes with its last process
}

// adopt makes the manager put a launcher and all that it has forked into the scope.
func (s *scope) adopt(launcher int) error {
	ctx, cancel := context.WithTimeout(context.Background(), managerPatience)
	defer cancel()
	ask := s.start
	for {
		outside := s.outside(launcher)
		if len(outside) == 0 {
			break
		}
		if err := s.manager.call(ctx, ask(outside)); err != nil {
			return err
		}
		for _, pid := range outside {
			for !s.has(pid) {
				select {
				case <-time.After(managerStep):
				case <-ctx.Done():
					return errors.New("systemd did not put the command into " + s.unit + " in time")
				}
			}
		}
		ask = s.attach
	}
	for _, tree := range hierarchies(read("/proc/self", "mountinfo"), groupsOf(launcher)) {
		if tree.version == 2 && path.Base(tree.ownGroup) == s.unit {
			s.events, _ = os.Open(filepath.Join(tree.ownGroup, "memory.events"))
		}
	}
	return nil
}

// outside lists a launcher and its descendants, as far as they are not in the scope.
func (s *scope) outside(pid int) (out []int) {
	if !s.has(pid) {
		out = append(out, pid)
	}
	for _, child := range proc.Children(pid) {
		if len(out) < maxTree {
			out = append(out, s.outside(child)...)
		}
	}
	return out
}

// has reports whether a process is in the scope, or has ended.
func (s *scope) has(pid int) bool {
	if _, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe"); errors.Is(err, fs.ErrNotExist) {
		return true
	}
	groups := groupsOf(pid)
	return groups == "" || slices.ContainsFunc(strings.Fields(groups), func(line string) bool { return path.Base(line) == s.unit })
}

func groupsOf(pid int) string { return read("/proc/"+strconv.Itoa(pid), "cgroup") }

// start is the call that makes the scope.
func (s *scope) start(pids []int) []string {
	properties := [][]string{
		append([]string{"PIDs", "au"}, counted(pids)...),
		// systemd stops a scope that is not delegated, with the launcher and the init, when the
		// kernel kills one of its processes for lack of memory (OOMPolicy=).
		{"Delegate", "b", "true"},
		{"CollectMode", "s", "inactive-or-failed"},
	}
	for _, c := range both(s.limits.needs(), s.manager.Controllers) {
		switch c {
		case Memory:
			properties = append(properties, []string{"MemoryMax", "t", strconv.FormatUint(s.limits.Memory, 10)}, []string{"MemorySwapMax", "t", "0"})
		case CPU:
			properties = append(properties, []string{"CPUQuotaPerSecUSec", "t", strconv.FormatUint(uint64(max(10_000, math.Floor(s.limits.CPUs*1e6))), 10)})
		case PIDs:
			properties = append(properties, []string{"TasksMax", "t", strconv.FormatUint(s.limits.PIDs, 10)})
		}
	}
	words := []string{"StartTransientUnit", "ssa(sv)a(sa(sv))", s.unit, "fail", strconv.Itoa(len(properties))}
	return append(append(words, slices.Concat(properties...)...), "0")
}

// attach is the call for processes that were forked while the scope was made.
func (s *scope) attach(pids []int) []string {
	return append([]string{"AttachProcessesToUnit", "ssau", s.unit, ""}, counted(pids)...)
}

// counted is an array in busctl's form.
func counted(pids []int) []string {
	words := []string{strconv.Itoa(len(pids))}
	for _, pid := range pids {
		words = append(words, strconv.Itoa(pid))
	}
	return words
}

// call calls a method of the manager.
func (m *Manager) call(ctx context.Context, words []string) error {
	bus, err := hostpath.Installed(m.Bus)
	if err != nil {
		return err
	}
	cmd := bus.Command(ctx, append([]string{"--user", "--quiet", "call",
		"org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"}, words...)...)
	cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+m.RuntimeDir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return errors.New("asking systemd for a scope: " + strings.TrimSpace(string(out)+" "+err.Error()))
	}
	return nil
}
