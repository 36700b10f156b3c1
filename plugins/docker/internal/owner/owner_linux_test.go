package owner

import (
	"os"
	"testing"
)

func TestOwner(t *testing.T) {
	t.Parallel()
	o := Owner{"boot", "4026531836", 12, "345"}
	if got, ok := Parse(o.String()); !ok || got != o {
		t.Errorf("got %+v, %v", got, ok)
	}
	for _, bad := range []string{"", "a-b-c", "a-b-x-d", "a-b-0-d", "-b-1-d", "a-b-1-", "a-b-1-d-e"} {
		if _, ok := Parse(bad); ok {
			t.Errorf("%q is taken for an owner", bad)
		}
	}
	started := func(pid int) string { return map[int]string{12: "345", 13: "1"}[pid] }
	for name, tt := range map[string]struct {
		o    Owner
		gone bool
	}{
		"alive":             {o, false},
		"another process":   {Owner{"boot", "4026531836", 13, "345"}, true},
		"no process":        {Owner{"boot", "4026531836", 14, "345"}, true},
		"another namespace": {Owner{"boot", "1", 14, "345"}, false},
		"an earlier boot":   {Owner{"before", "1", 14, "345"}, true},
	} {
		if got := tt.o.Gone("boot", "4026531836", started); got != tt.gone {
			t.Errorf("%s: %v", name, got)
		}
	}
	if StartTime(os.Getpid()) == "" || Boot() == "" || PidNamespace() == "" {
		t.Error("this process does not know who it is")
	}
}

func FuzzOwner(f *testing.F) {
	f.Add("boot-1-2-3")
	f.Add("--1-")
	f.Fuzz(func(t *testing.T, s string) {
		if o, ok := Parse(s); ok {
			if again, ok := Parse(o.String()); !ok || again != o {
				t.Errorf("%q: %+v, then %+v", s, o, again)
			}
		}
	})
}
