package enginetest

import (
	"regexp"
	"runtime"
	"testing"
)

var idForm = regexp.MustCompile(`^[a-z]+\.[0-9]{2}$`)

// The probes are data: each says what it is, once, and its action exists.
func TestProbesAreComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	titles := map[string]bool{}
	n := 0
	for _, g := range probeGroups() {
		for _, p := range g.probes {
			n++
			if !idForm.MatchString(p.id) || seen[p.id] {
				t.Errorf("%q is no ID, or that of two", p.id)
			}
			seen[p.id] = true
			if p.title == "" || titles[string(g.group)+p.title] && p.title != "the same with high bits set in the request" {
				t.Errorf("%s: the title %q is empty or used twice", p.id, p.title)
			}
			titles[string(g.group)+p.title] = true
			if (p.trial == nil) == (p.custom == nil) {
				t.Errorf("%s: either a trial or custom", p.id)
			}
			if p.control == controlGranted && p.grant == nil {
				t.Errorf("%s: nothing is granted", p.id)
			}
		}
	}
	if n < 120 {
		t.Errorf("there are %d probes", n)
	}
}

// Each action that a probe names is there, on the platform that it is for.
func TestActionsExist(t *testing.T) {
	t.Parallel()
	s := &Suite{dir: t.TempDir(), random: "0123456789", actor: "/actor"}
	for _, g := range probeGroups() {
		for _, p := range g.probes {
			if p.trial == nil || p.only&onlyDarwin != 0 || p.only&onlyLinux != 0 && runtime.GOOS != "linux" || p.id[:4] == "read" && p.id > "read.21" && p.id < "read.27" || p.id == "proc.09" {
				continue // those with a victim need a suite that runs
			}
			sc, err := s.newScene(&p, p.id)
			if err == nil {
				tr := sc.newTrial()
				p.trial(sc, tr)
				if _, ok := findAction(tr.act[0]); !ok {
					t.Errorf("%s: no action %q", p.id, tr.act[0])
				}
				if p.grant != nil {
					p.grant(sc, tr)
					if _, ok := findAction(tr.act[0]); !ok {
						t.Errorf("%s: no action %q in its control", p.id, tr.act[0])
					}
				}
			}
			sc.close()
		}
	}
}
