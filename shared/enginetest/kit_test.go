package enginetest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/contract"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/probes"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// Every feature there is must be refused where it is not claimed, and tried where
// it is, or somebody has said here why that cannot be asked.
func TestFeaturesAreCovered(t *testing.T) {
	t.Parallel()
	// Nothing in a Spec or a Command asks for these.
	unasked := map[shared.Feature]string{
		shared.FeatureNetworkTranslated: "it says how NetworkHost is held",
		shared.FeatureSourceFD:          "it says how a mount is held",
		shared.FeatureUnconfined:        "rule open.06",
		shared.FeatureTTY:               "rule open.03, by a command",
		shared.FeatureTrace:             "the host refuses it; an engine that does not know it holds no less",
		shared.FeatureProcesses:         "the host refuses it; in an engine that does not know it commands share nothing",
		shared.FeatureNetworkTCP:        "it is a part of network.none",
		shared.FeatureNetworkProxy:      "network.names is asked for, and either holds it",
		shared.FeatureOverlayKept:       "it says where an overlay's writes are",
	}
	asked := map[shared.Feature]bool{}
	for _, a := range contract.Asked() {
		asked[a] = true
	}
	tried := map[shared.Feature]string{
		shared.FeatureUnconfined:   "rule open.06",
		shared.FeatureNetworkProxy: "the probes of network.names",
		// It takes a host at port 443 that the engine trusts, which no kit can make on a machine:
		// TestNetworkByName has one, in namespaces, for the engines that claim it.
		shared.FeatureNetworkInject: "TestNetworkByName",
		// It takes back a promise and makes none; the probes of the host's own
		// network are then tried without.
		shared.FeatureNetworkTranslated: "ownNetwork",
	}
	for _, r := range contract.Rules() {
		for _, f := range r.Features {
			tried[f] = r.ID
		}
	}
	k := &scene.Kit{Dir: t.TempDir(), Random: "0123456789", Program: "/actor"}
	for _, p := range probes.All() {
		for _, f := range p.Features {
			tried[f] = p.ID
		}
		if p.Tried() && p.Only != probes.OnlyDarwin {
			asked := p.Asked(k.Layout(p.Place(), p.ID))
			for _, f := range append(probes.Requires(p.Features, asked), p.Shows(asked)...) {
				tried[f] = p.ID
			}
		}
	}
	features := declaredFeatures(t)
	knows := known()
	slices.Sort(knows)
	if !slices.Equal(slices.Sorted(slices.Values(features)), knows) {
		t.Errorf("the kit knows %q, and there are %q", knows, features)
	}
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

// A case has an ID of its own, among probes and rules.
func TestIDsAreUnique(t *testing.T) {
	t.Parallel()
	ids := RuleIDs()
	for _, p := range Probes() {
		ids = append(ids, p.ID)
	}
	slices.Sort(ids)
	for i, id := range ids[1:] {
		if id == ids[i] {
			t.Errorf("two cases are %s", id)
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
		if m.Unmodelled == "" && (len(m.Trial.Acts) == 0 || m.Granted != nil && len(m.Granted.Acts) == 0) {
			t.Errorf("%s: it does nothing, or its control does not", m.ID)
		}
		if text := fmt.Sprintf("%+v", m); strings.Contains(text, dir) {
			t.Errorf("%s tells of the directory in which it was planted: %s", m.ID, text)
		}
	}
	for _, p := range probes.All() {
		if p.Only != probes.OnlyLinux && !seen[p.ID] {
			t.Errorf("%s is tried on macOS and is not told of", p.ID)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
