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
	me := This()
	another, none, elsewhere, before := me, me, me, me
	another.Started, none.PID, elsewhere.Namespace, before.Boot = "0", 1<<30, "1", "before"
	elsewhere.PID = none.PID
	for name, tt := range map[string]struct {
		o    Owner
		gone bool
	}{"alive": {me, false}, "another process": {another, true}, "no process": {none, true}, "another namespace": {elsewhere, false}, "an earlier boot": {before, true}} {
		if got := tt.o.Gone(); got != tt.gone {
			t.Errorf("%s: %v", name, got)
		}
	}
	if startTime(os.Getpid()) == "" || Boot() == "" || PidNamespace() == "" {
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
