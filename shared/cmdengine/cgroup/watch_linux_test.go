package cgroup

import (
	"os"
	"path/filepath"
	"testing"
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
func TestWatch(t *testing.T) {
	t.Parallel()
	var none *Watch
	if none.Killed() != 0 {
		t.Error("a nil Watch has seen something")
	}
	none.Close()
	if (Decision{}).Watch(os.Getpid()) != nil {
		t.Error("a Watch where systemd is not asked")
	}
	name := filepath.Join(t.TempDir(), "memory.events")
	for _, text := range []string{"oom_kill 0\n", "oom_kill 7\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	w := &Watch{f}
	for range 2 { // each looks again, from the beginning
		if got := w.Killed(); got != 7 {
			t.Errorf("%d killed, want 7", got)
		}
	}
	w.Close()
	if got := w.Killed(); got != 0 {
		t.Errorf("of a scope that is gone: %d", got)
	}
}
