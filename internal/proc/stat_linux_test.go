package proc

import (
	"os"
	"slices"
	"testing"
)

func TestStat(t *testing.T) {
	t.Parallel()
	const text = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20"
	for field, want := range map[int]string{StatState: "S", StatParent: "1", StatGroup: "2", StatStart: "4711", 24: ""} {
		if got := StatField(text, field); got != want {
			t.Errorf("%d: %q, want %q", field, got, want)
		}
	}
	for _, bad := range []string{"", "7 (a) S", ")"} {
		if got := StatField(bad, StatStart); got != "" {
			t.Errorf("%q: %q", bad, got)
		}
	}
	own := os.Getpid()
	if Stat(own, StatStart) == "" || !slices.Contains(All(), own) {
		t.Error("this process is not found")
	}
	if got := Stat(1<<30, StatState); got != "" {
		t.Errorf("of no process: %q", got)
	}
}

func TestStatusField(t *testing.T) {
	t.Parallel()
	const text = "Name:\ta PPid:\nPPid:\t42\nNSpid:\t7\t1\nGroups:\t \n"
	for name, want := range map[string]string{"Name": "a PPid:", "PPid": "42", "NSpid": "7\t1", "Groups": "", "Pid": "", "Uid": ""} {
		if got := StatusField(text, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Whatever a process calls itself, the fields are the kernel's.
func FuzzStatField(f *testing.F) {
	f.Add("sh) S 0 1 1 0")
	f.Add("a) Z 3 9 (b) R) S 1 42 1")
	f.Add("")
	f.Fuzz(func(t *testing.T, name string) {
		if state, group := StatField("7 ("+name+") S 1 42 42 0 -1", StatState), StatField("7 ("+name+") S 1 42 42 0 -1", StatGroup); state != "S" || group != "42" {
			t.Errorf("%q: %q, %q", name, state, group)
		}
		StatField(name, StatStart)
	})
}
