package cmdengine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/engine/cgroup"
	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/internal/testing/programs"
	"github.com/sbxhost/sbxhost/shared"
)

func limitedConfig() Config {
	c := config(inside)
	c.HoldLimits = true
	c.Info.Features = append(c.Info.Features, shared.FeatureLimitMemory, shared.FeatureLimitPIDs, shared.FeatureLimitCPUs)
	return c
}

var limited = shared.Limits{Memory: 256 << 20, PIDs: 100, CPUs: 1}

// limitedRole is an engine process with one limited command.
func limitedRole() int {
	sb, err := New(limitedConfig()).Open(context.Background(), shared.Spec{Limits: limited})
	if err == nil {
		_, err = sb.Start(context.Background(), shared.Command{Args: []string{"sleep", "1000"}, Env: stdEnv, Dir: "/"}, shared.Stdio{})
	}
	fmt.Println("started", err)
	io.Copy(io.Discard, os.Stdin)
	return 0
}

func needsGroups(t *testing.T) cgroup.Host {
	t.Helper()
	h := cgroup.Look()
	if len(h.Places) == 0 {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "cgroup") {
			t.Fatal("cgroup is required, and no group can be made here")
		}
		t.Skip("no group can be made here")
	}
	return h
}

// groupsOf are the directories of the groups of a process that are this project's.
func groupsOf(t *testing.T, h cgroup.Host, pid string) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/" + pid + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for line := range strings.Lines(string(text)) {
		name := filepath.Base(strings.TrimSpace(line))
		if !strings.HasPrefix(name, "sbxhost-") {
			continue
		}
		for _, p := range h.Places {
			if _, err := os.Stat(filepath.Join(p.Dir, name)); err == nil {
				dirs = append(dirs, filepath.Join(p.Dir, name))
			}
		}
	}
	return dirs
}

// An engine that was killed leaves its groups to the next one, which removes them.
func TestGroupsOfAKilledEngine(t *testing.T) {
	t.Parallel()
	needs(t, inside)
	h := needsGroups(t)
	cmd := role(t, "limited")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "started <nil>\n" {
		t.Fatalf("%q, %v", line, err)
	}
	var dirs []string
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", cmd.Process.Pid, task.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, launcher := range strings.Fields(string(list)) {
			dirs = append(dirs, groupsOf(t, h, launcher)...)
			for _, child := range proc.Children(atoi(t, launcher)) {
				if inside := groupsOf(t, h, strconv.Itoa(child)); len(inside) == 0 || !slices.Equal(inside, dirs) {
					t.Errorf("the launcher is in %q, and its child in %q", dirs, inside)
				}
			}
		}
	}
	if len(dirs) == 0 {
		t.Fatal("the command is in no group")
	}
	cmd.Process.Kill()
	cmd.Wait()

	// The next engine clears away, as soon as it needs groups itself.
	p := open(t, limitedConfig(), shared.Spec{Limits: limited})
	// Another test's may be at it, and have the lock.
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); len(dirs) > 0; {
		if _, err := os.Stat(dirs[0]); os.IsNotExist(err) {
			dirs = dirs[1:]
		} else if time.Now().After(deadline) {
			t.Fatalf("%s is still there (%v)", dirs[0], err)
		} else {
			<-tick.C
		}
	}
	// And leaves nothing of its own.
	process, err := p.Start(t.Context(), sh("exit 3"), shared.Stdio{})
	if err != nil {
		t.Fatal(err)
	}
	if result, err := process.Wait(t.Context()); err != nil || result.Status.Code != 3 {
		t.Errorf("%+v, %v", result, err)
	}
}

func atoi(t *testing.T, s string) (n int) {
	t.Helper()
	if _, err := fmt.Sscan(s, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLimitsAreExplained(t *testing.T) {
	t.Parallel()
	needs(t, inside)
	best := limited
	best.BestEffort = true
	sb := open(t, limitedConfig(), shared.Spec{Limits: best})
	plan, err := sb.Plan(t.Context(), sh("true"))
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []string{"limits.memory is ", "limits.pids is ", "limits.cpus is "} {
		if !strings.Contains(strings.Join(plan.Notes, "\n"), limit) {
			t.Errorf("no note on %s: %q", limit, plan.Notes)
		}
	}
}

// A systemd that does not answer is an error that says so, and no command is run.
func TestThroughSystemd(t *testing.T) {
	t.Parallel()
	needs(t, inside)
	program := filepath.Join(t.TempDir(), "busctl")
	if err := programs.Write(program, []byte("#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n")); err != nil {
		t.Fatal(err)
	}
	e := New(limitedConfig()).(*engine)
	e.limitHost = func() cgroup.Host {
		return cgroup.Host{Manager: &cgroup.Manager{Bus: program, RuntimeDir: "/run/user/7",
			Controllers: []cgroup.Controller{cgroup.Memory, cgroup.CPU, cgroup.PIDs}}}
	}
	sb, err := e.Open(t.Context(), shared.Spec{Limits: limited})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close(t.Context())
	_, err = sb.Start(t.Context(), sh("exit 4"), shared.Stdio{})
	wantError(t, err, shared.ErrUnavailable, "Failed to connect to bus")
}
