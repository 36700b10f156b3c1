package enginetest

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
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

// Every probe for macOS says what it asks that system's kernel for, or why that
// does not matter.
func TestMacTrialsAreComplete(t *testing.T) {
	t.Parallel()
	const as = "/Users/me/Library/Caches/sbxhost-probe-1"
	dir := t.TempDir()
	trials, err := MacTrials(dir, as, "/Users/me")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range trials {
		seen[m.ID] = true
		if (m.Unmodelled == "") == (len(m.Trial.Ways) == 0) {
			t.Errorf("%s: %d ways, and unmodelled because %q", m.ID, len(m.Trial.Ways), m.Unmodelled)
		}
		if m.Granted != nil && m.Unmodelled == "" && len(m.Granted.Ways) == 0 {
			t.Errorf("%s: its control is not known", m.ID)
		}
		if text := fmt.Sprintf("%+v", m); strings.Contains(text, dir) {
			t.Errorf("%s tells of the directory in which it was planted: %s", m.ID, text)
		}
	}
	for _, g := range probeGroups() {
		for _, p := range g.probes {
			if p.only&^onlyDarwin == 0 && !seen[p.id] {
				t.Errorf("%s is tried on macOS and is not told of", p.id)
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
