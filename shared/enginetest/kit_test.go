package enginetest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/actor"
)

var idForm = regexp.MustCompile(`^[a-z]+\.[0-9]{2}$`)

// The probes are data: each says what it is, once, and its action exists.
func TestProbesAreComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	titles := map[string]bool{}
	n := 0
	for _, p := range allProbes() {
		n++
		if !idForm.MatchString(p.id) || seen[p.id] {
			t.Errorf("%q is no ID, or that of two", p.id)
		}
		seen[p.id] = true
		if p.title == "" || titles[string(p.group)+p.title] && p.title != "the same with high bits set in the request" {
			t.Errorf("%s: the title %q is empty or used twice", p.id, p.title)
		}
		titles[string(p.group)+p.title] = true
		if p.tried() == (p.custom != nil) {
			t.Errorf("%s: either an action or custom", p.id)
		}
		if p.works && (p.grant != nil || p.control != controlGranted) {
			t.Errorf("%s: what must work has no control", p.id)
		}
	}
	if n < 290 {
		t.Errorf("there are %d probes", n)
	}
}

// Each action that a probe names is there, on the platform that it is for.
func TestActionsExist(t *testing.T) {
	t.Parallel()
	s := &Suite{dir: t.TempDir(), random: "0123456789", actor: "/actor"}
	for _, p := range allProbes() {
		if !p.tried() || p.only == onlyDarwin || p.only == onlyLinux && runtime.GOOS != "linux" {
			continue
		}
		sc := s.layout(p, p.id)
		sc.plant() // which fails where a victim is needed, that nothing starts here
		for _, tr := range []*trial{sc.asked(), sc.granted()} {
			if !actor.Has(tr.act[0]) {
				t.Errorf("%s: no action %q", p.id, tr.act[0])
			}
			if text := strings.Join(tr.act, " "); strings.Contains(text, "{") && p.prepare == nil {
				t.Errorf("%s: nothing stands for what is in braces: %s", p.id, text)
			}
		}
		sc.close()
	}
}

// Every feature there is must be refused where it is not claimed, and tried where
// it is, or somebody has said here why that cannot be asked.
func TestFeaturesAreCovered(t *testing.T) {
	t.Parallel()
	// Nothing in a Spec or a Command asks for these.
	unasked := map[shared.Feature]string{
		shared.FeatureNetworkTranslated: "it says how NetworkHost is held",
		shared.FeatureSourceFD:          "it says how a mount is held",
		shared.FeaturePatterns:          "engines with mounts are given patterns, too, and go by the table",
		shared.FeatureUnconfined:        "rule open.06",
		shared.FeatureTTY:               "rule open.03, by a command",
		shared.FeatureTrace:             "the host refuses it; an engine that does not know it holds no less",
		shared.FeatureProcesses:         "the host refuses it; in an engine that does not know it commands share nothing",
		shared.FeatureNetworkTCP:        "it is a part of network.none",
		shared.FeatureNetworkProxy:      "network.names is asked for, and either holds it",
		shared.FeatureOverlayKept:       "it says where an overlay's writes are",
	}
	asked := map[shared.Feature]bool{}
	for _, a := range asks("/x") {
		asked[a.feature] = true
	}
	tried := map[shared.Feature]string{
		shared.FeatureUnconfined:   "rule open.06",
		shared.FeaturePatterns:     "the probes of hidden paths",
		shared.FeatureNetworkProxy: "the probes of network.names",
		// It takes a host at port 443 that the engine trusts, which no kit can make on a machine:
		// TestNetworkByName has one, in namespaces, for the engines that claim it.
		shared.FeatureNetworkInject: "TestNetworkByName",
		// It takes back a promise and makes none; the probes of the host's own
		// network are then tried without.
		shared.FeatureNetworkTranslated: "ownNetwork",
	}
	for _, r := range contractRules() {
		for _, f := range r.features {
			tried[f] = r.id
		}
	}
	s := &Suite{dir: t.TempDir(), random: "0123456789", actor: "/actor"}
	for _, p := range allProbes() {
		for _, f := range p.features {
			tried[f] = p.id
		}
		if p.tried() && p.only != onlyDarwin {
			asked := s.layout(p, p.id).asked()
			for _, f := range append(p.requires(asked), p.shows(asked)...) {
				tried[f] = p.id
			}
		}
	}
	features := declaredFeatures(t)
	if len(features) < 25 {
		t.Fatalf("found %v", features)
	}
	for _, f := range features {
		if why := unasked[f]; asked[f] == (why != "") {
			t.Errorf("%s: no rule says that an engine which does not claim it must refuse it, or two do: %q", f, why)
		}
		if tried[f] == "" {
			t.Errorf("%s: an engine may claim it and not hold it, and nothing is tried", f)
		}
	}
}

// declaredFeatures are the constants of package shared.
func declaredFeatures(t *testing.T) (list []shared.Feature) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../spec.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 || !strings.HasPrefix(v.Names[0].Name, "Feature") {
				continue
			}
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, shared.Feature(text))
		}
	}
	return list
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
		if m.Unmodelled == "" && (len(m.Trial.Acts) == 0 || m.Granted != nil && len(m.Granted.Acts) == 0) {
			t.Errorf("%s: it does nothing, or its control does not", m.ID)
		}
		if text := fmt.Sprintf("%+v", m); strings.Contains(text, dir) {
			t.Errorf("%s tells of the directory in which it was planted: %s", m.ID, text)
		}
	}
	for _, p := range allProbes() {
		if p.only != onlyLinux && !seen[p.id] {
			t.Errorf("%s is tried on macOS and is not told of", p.id)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// What a run leaves that is killed, a later one removes, and nothing else.
func TestSweep(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	old := time.Now().Add(-2 * staleAfter)
	for name, gone := range map[string]bool{"sbxhost-probe-1": true, "sbxhost-probe-used": false, "sbxhost-probe-new": false, "other": false} {
		dir := base + "/" + name
		if err := os.MkdirAll(dir+"/sub", 0o700); err != nil {
			t.Fatal(err)
		}
		if name == "sbxhost-probe-used" {
			f, err := os.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH); err != nil {
				t.Fatal(err)
			}
		}
		if name != "sbxhost-probe-new" {
			if err := os.Chtimes(dir, old, old); err != nil {
				t.Fatal(err)
			}
		}
		sweep(base)
		if _, err := os.Stat(dir); os.IsNotExist(err) != gone {
			t.Errorf("%s: %v", name, err)
		}
	}
}
