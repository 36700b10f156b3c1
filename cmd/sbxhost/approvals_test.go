package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/consent"
	"github.com/sbxhost/sbxhost/shared"
)

const askConfig = `sandbox "fast" {
  engine   = "bwrap"
  fallback = "approve"
}
`

// unsandboxedApp is an app whose engine does not work, and which has one that
// does not isolate.
func unsandboxedApp(t *testing.T, config string) (a *cli.App, noop *fakeEngine, out, errs *output, path string) {
	t.Helper()
	a, out, errs, path = testApp(t, &fakeEngine{broken: true}, config)
	noop = &fakeEngine{name: "noop", features: shared.Features{shared.FeatureUnconfined, shared.FeatureTTY, shared.FeatureUser}}
	a.Inject["noop"] = noop
	return a, noop, out, errs, path
}

func TestApprovals(t *testing.T) {
	t.Parallel()
	a, noop, out, errs, path := unsandboxedApp(t, askConfig)
	run := func(want int, args ...string) string {
		t.Helper()
		out.Reset()
		errs.Reset()
		if status := runLine(a, args); status != want {
			t.Fatalf("%q: status %d, want %d: %s", args, status, want, errs)
		}
		return out.String() + errs.String()
	}
	text := run(125, "exec", "-config", path, "-C", a.Dir, "-env", "X=secret", "-env", "Y", "-c", "make $1", "all")
	want := fmt.Sprintf("with the values in place of the dots: cd %s && sbxhost approvals add -scope once -config %s -C %[1]s -sandbox fast -env X=... -env Y -c 'make $1' -- all\n", a.Dir, path)
	if !strings.HasSuffix(text, want) || strings.Contains(text, "secret") {
		t.Errorf("%s\nlacks %s", text, want)
	}
	if text := run(125, "exec", "-config", path, "--", strings.Repeat("x", 5000)); strings.Contains(text, "xxx") || !strings.Contains(text, "just as they are") {
		t.Errorf("what is too long to be pasted is shown in part: %s", text)
	}
	run(0, "approvals", "add", "-config", path, "-scope", "always", "--", "ls", "-h")
	run(0, "exec", "-config", path, "--", "ls", "-h")
	run(0, "exec", "-config", path, "-quiet", "ls", "-h")
	if !strings.Contains(errs.String(), "running WITHOUT a sandbox (approved-always)") {
		t.Errorf("quiet about what must be said: %s", errs)
	}
	if len(noop.specs) != 2 && !noop.specs[0].Unconfined {
		t.Errorf("%+v", noop.specs)
	}
	var list []consent.ApprovalJSON
	if err := json.Unmarshal([]byte(run(0, "approvals", "list", "-json")), &list); err != nil || len(list) != 1 || list[0].Dir != a.Dir || !list[0].Here {
		t.Fatalf("%+v, %v", list, err)
	}
	run(0, "approvals", "add", "-config", path, "--", "echo", "\xff\x1b[2J\n")
	if text := run(0, "approvals", "list"); !strings.Contains(text, `echo $'\xff\x1b[2J\n'`) || cli.Printable(text) != text || strings.Count(text, "\n") != 3 {
		t.Errorf("%q", text)
	}
	run(125, "approvals", "revoke", "")
	run(0, "approvals", "revoke", list[0].ID[:5])
	run(125, "exec", "-config", path, "--", "ls", "-h")
	for _, args := range [][]string{{"approvals", "add", "-config", path}, {"approvals", "add", "-scope", "ever", "x"}, {"approvals", "list", "x"}, {"approvals", "clear", "x"}} {
		run(125, args...)
	}
}

func TestPolicyVariables(t *testing.T) {
	t.Parallel()
	for variable, status := range map[string]int{
		"SBXHOST_APPROVAL_MODE=always": 0, "SBXHOST_APPROVAL_MODE=ask": 125, "SBXHOST_APPROVAL_MODE=deny": 125, "SBXHOST_APPROVAL_MODE=x": 125,
		"SBXHOST_SESSION_APPROVAL_TTL_MS=0": 125, "SBXHOST_SESSION_APPROVAL_TTL_MS=99999999999999": 125,
	} {
		a, _, _, errs, path := unsandboxedApp(t, askConfig)
		a.Environ = append(a.Environ, variable)
		if got := runLine(a, []string{"exec", "-config", path, "--", "true"}); got != status {
			t.Errorf("%s: status %d: %s", variable, got, errs)
		}
		name, _, _ := strings.Cut(variable, "=")
		if status != 0 && !strings.HasSuffix(variable, "ask") && !strings.Contains(errs.String(), name) {
			t.Errorf("%s is not named: %s", name, errs)
		}
	}
	a, _, _, errs, path := unsandboxedApp(t, fastConfig)
	// In the workspace, it has to be hidden.
	a.Environ = append(a.Environ, "SBXHOST_AUDIT=log.jsonl")
	a.Inject["bwrap"] = &fakeEngine{}
	if status := runLine(a, []string{"exec", "-config", path, "--", "true"}); status != 125 || !strings.Contains(errs.String(), "audit.path (the audit log): engine") {
		t.Fatalf("status %d: %s", status, errs)
	}
	if err := os.Remove(filepath.Join(a.Dir, "log.jsonl")); err != nil {
		t.Fatal(err)
	}
	a.Inject["bwrap"] = &fakeEngine{features: shared.Features{shared.FeatureNetworkNone, shared.FeatureFilesystemMinimal, shared.FeatureHidden,
		shared.FeatureNested, shared.FeatureHomePrivate, shared.FeatureTempPrivate, shared.FeatureProcessesHidden, shared.FeatureKernelFiltered, shared.FeatureMetadata}}
	if status := runLine(a, []string{"exec", "-config", path, "--", "true"}); status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	if text, err := os.ReadFile(filepath.Join(a.Dir, "log.jsonl")); err != nil || strings.Count(string(text), "\n") != 2 {
		t.Errorf("%s, %v", text, err)
	}
}

func TestTrustIsNeeded(t *testing.T) {
	t.Parallel()
	a, out, errs, _ := testApp(t, &fakeEngine{}, "")
	path := filepath.Join(a.Dir, "config.hcl")
	if err := os.WriteFile(path, []byte(fastConfig), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"exec", "true"}, {"explain"}, {"doctor"}, {"approvals", "add", "true"}} {
		errs.Reset()
		if status := runLine(a, args); status != 125 || !strings.Contains(errs.String(), "you have not trusted it") {
			t.Errorf("%q: status %d: %s", args, status, errs)
		}
	}
	if status := runLine(a, []string{"trust"}); status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	if status := runLine(a, []string{"exec", "true"}); status != 0 {
		t.Errorf("status %d: %s", status, errs)
	}
	out.Reset()
	var list []consent.TrustedJSON
	if status := runLine(a, []string{"trust", "-list", "-json"}); status != 0 || json.Unmarshal(out.Bytes(), &list) != nil || len(list) != 1 || list[0].State != "unchanged" {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
	for _, args := range [][]string{{"trust", "a", "b"}, {"trust", "-list", "-revoke"}, {"trust", "-json"}, {"trust", "nowhere"}, {"trust", "."}} {
		if status := runLine(a, args); status != 125 {
			t.Errorf("%q: status %d", args, status)
		}
	}
}
