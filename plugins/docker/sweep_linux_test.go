package docker

import (
	"os"
	"strings"
	"testing"
)

func TestOwner(t *testing.T) {
	t.Parallel()
	o := owner{"boot", "4026531836", 12, "345"}
	if got, ok := parseOwner(o.String()); !ok || got != o {
		t.Errorf("got %+v, %v", got, ok)
	}
	for _, bad := range []string{"", "a-b-c", "a-b-x-d", "a-b-0-d", "-b-1-d", "a-b-1-", "a-b-1-d-e"} {
		if _, ok := parseOwner(bad); ok {
			t.Errorf("%q is taken for an owner", bad)
		}
	}
	started := func(pid int) string { return map[int]string{12: "345", 13: "1"}[pid] }
	for name, tt := range map[string]struct {
		o    owner
		gone bool
	}{
		"alive":             {o, false},
		"another process":   {owner{"boot", "4026531836", 13, "345"}, true},
		"no process":        {owner{"boot", "4026531836", 14, "345"}, true},
		"another namespace": {owner{"boot", "1", 14, "345"}, false},
		"an earlier boot":   {owner{"before", "1", 14, "345"}, true},
	} {
		if got := tt.o.gone("boot", "4026531836", started); got != tt.gone {
			t.Errorf("%s: %v", name, got)
		}
	}
	if startTime(os.Getpid()) == "" || bootID() == "" || pidNamespace() == "" {
		t.Error("this process does not know who it is")
	}
}

func TestProjectOwner(t *testing.T) {
	t.Parallel()
	o := thisOwner()
	name := projectName(o, 1)
	if got, ok := projectOwner(name); !ok || got != o || name == projectName(o, 2) || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		t.Errorf("%q: got %+v, %v", name, got, ok)
	}
	for _, bad := range []string{"", "sbxhost", "sbxhost-", "sbxhost-a-b-c", "other-a-b-1-c_1", "sbxhost-a-b-0-c_1", "sbxhost-a-b-1-_1"} {
		if _, ok := projectOwner(bad); ok {
			t.Errorf("%q is taken for a project of ours", bad)
		}
	}
}

func FuzzOwner(f *testing.F) {
	f.Add("boot-1-2-3")
	f.Add("--1-")
	f.Fuzz(func(t *testing.T, s string) {
		if o, ok := parseOwner(s); ok {
			if again, ok := parseOwner(o.String()); !ok || again != o {
				t.Errorf("%q: %+v, then %+v", s, o, again)
			}
		}
	})
}
