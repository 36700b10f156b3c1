package probes

import (
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

var idForm = regexp.MustCompile(`^[a-z]+\.[0-9]{2}$`)

// The probes are data: each says what it is, once, and its action exists.
func TestProbesAreComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	titles := map[string]bool{}
	n := 0
	for _, p := range All() {
		n++
		if !idForm.MatchString(p.ID) || seen[p.ID] {
			t.Errorf("%q is no ID, or that of two", p.ID)
		}
		seen[p.ID] = true
		if p.Title == "" || titles[p.Group+p.Title] && p.Title != "the same with high bits set in the request" {
			t.Errorf("%s: the title %q is empty or used twice", p.ID, p.Title)
		}
		titles[p.Group+p.Title] = true
		if p.Tried() == (p.custom != nil) {
			t.Errorf("%s: either an action or custom", p.ID)
		}
		if p.Works && (p.grant != nil || p.outside || p.Privileged) {
			t.Errorf("%s: what must work has no control", p.ID)
		}
	}
	if n < 290 {
		t.Errorf("there are %d probes", n)
	}
}

// What an action has in braces is prepared.
func TestActionsAreFilled(t *testing.T) {
	t.Parallel()
	k := &scene.Kit{Dir: t.TempDir(), Random: "0123456789", Program: "/actor"}
	for _, p := range All() {
		if !p.Tried() || p.Only == OnlyDarwin || p.Only == OnlyLinux && runtime.GOOS != "linux" {
			continue
		}
		sc := k.Layout(p.Place(), p.ID)
		sc.Plant() // which fails where a victim is needed, that nothing starts here
		for _, tr := range []*scene.Trial{p.Asked(sc), p.Granted(sc)} {
			if text := strings.Join(tr.Act, " "); strings.Contains(text, "{") && p.prepare == nil {
				t.Errorf("%s: nothing stands for what is in braces: %s", p.ID, text)
			}
		}
		sc.Close()
	}
}
