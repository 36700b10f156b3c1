package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/testing/programs"
)

func TestOOMKills(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{
		"":                                      0,
		"oom_kill\n":                            0,
		"oom_kill x\n":                          0,
		"low 1\noom 4\noom_kill 3\n":            3,
		"oom_kill_disable 0\noom_kill 2":        2,
		"oom 9\noom_group_kill 9\noom_kill 0\n": 0,
	} {
		if got := oomKills(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// A file stands for a scope's, of which this machine may have none.
func TestKilledInScope(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "memory.events")
	if err := os.WriteFile(name, []byte("oom_kill 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	g := &Group{scope: &scope{events: f}}
	for range 2 { // each looks again, from the beginning
		if got := g.Killed(); got != 7 {
			t.Errorf("%d killed, want 7", got)
		}
	}
	g.Remove()
	if got := g.Killed(); got != 0 {
		t.Errorf("of a scope that is gone: %d", got)
	}
}

func TestScopeCalls(t *testing.T) {
	t.Parallel()
	all := &Manager{Controllers: []Controller{Memory, CPU, PIDs}}
	s := &scope{manager: all, limits: Limits{Memory: 1 << 30, CPUs: 1.5, PIDs: 100}, unit: "u.scope"}
	for got, want := range map[string]string{
		strings.Join(s.start([]int{7, 8}), " "): "StartTransientUnit ssa(sv)a(sa(sv)) u.scope fail 7 PIDs au 2 7 8 Delegate b true CollectMode s inactive-or-failed" +
			" MemoryMax t 1073741824 MemorySwapMax t 0 CPUQuotaPerSecUSec t 1500000 TasksMax t 100 0",
		strings.Join(s.attach([]int{9}), " "): "AttachProcessesToUnit ssau u.scope  1 9",
	} {
		if got != want {
			t.Errorf("%s\n%s", got, want)
		}
	}
	if least := (&scope{manager: all, limits: Limits{CPUs: 0.001}}).start(nil); !slices.Contains(least, "10000") {
		t.Errorf("the least: %q", least)
	}
}

// A manager that takes the call and does nothing is an error, and so is one that is not there.
func TestScopeThatIsNone(t *testing.T) {
	defer func(was time.Duration) { managerPatience = was }(managerPatience)
	bus := filepath.Join(t.TempDir(), "busctl")
	for text, want := range map[string]string{"exit 0": "did not put", "echo no bus >&2; exit 1": "no bus"} {
		path := bus + want[:2]
		if err := programs.Write(path, []byte("#!/bin/sh\n"+text+"\n")); err != nil {
			t.Fatal(err)
		}
		s := &scope{manager: &Manager{Bus: path}, unit: "u.scope"}
		managerPatience = time.Minute
		if want == "did not put" { // when that is over
			managerPatience = 3 * time.Second
		}
		if err := s.adopt(os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
