package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/policy"
	"github.com/sbxhost/sbxhost/shared"
)

const askConfig = `sandbox "fast" {
  engine   = "bwrap"
  fallback = "approve"
}
`

// unsandboxedApp is an app whose engine does not work, and which has one that
// does not isolate.
func unsandboxedApp(t *testing.T, config string) (a *app, noop *fakeEngine, out, errs *output, path string) {
	t.Helper()
	a, out, errs, path = testApp(t, &fakeEngine{broken: true}, config)
	noop = &fakeEngine{name: "noop", features: shared.Features{shared.FeatureUnconfined, shared.FeatureTTY, shared.FeatureUser}}
	a.inject["noop"] = noop
	return a, noop, out, errs, path
}

func TestApprovals(t *testing.T) {
	t.Parallel()
	a, noop, out, errs, path := unsandboxedApp(t, askConfig)
	run := func(want int, args ...string) string {
		t.Helper()
		out.Reset()
		errs.Reset()
		if status := a.run(args); status != want {
			t.Fatalf("%q: status %d, want %d: %s", args, status, want, errs)
		}
		return out.String() + errs.String()
	}
	text := run(125, "exec", "-config", path, "-workdir", a.dir, "-env", "X=secret", "-c", "make $1", "all")
	want := fmt.Sprintf("sbxhost approvals add -scope session -config %s -workdir %s -sandbox fast -env X=... -c 'make $1' -- all\n", path, a.dir)
	if !strings.HasSuffix(text, want) || strings.Contains(text, "secret") {
		t.Errorf("%s\nlacks %s", text, want)
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
	var list []approvalJSON
	if err := json.Unmarshal([]byte(run(0, "approvals", "list", "-json")), &list); err != nil || len(list) != 1 || list[0].Dir != a.dir || !list[0].Here {
		t.Fatalf("%+v, %v", list, err)
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
		a.environ = append(a.environ, variable)
		if got := a.run([]string{"exec", "-config", path, "--", "true"}); got != status {
			t.Errorf("%s: status %d: %s", variable, got, errs)
		}
		name, _, _ := strings.Cut(variable, "=")
		if status != 0 && !strings.HasSuffix(variable, "ask") && !strings.Contains(errs.String(), name) {
			t.Errorf("%s is not named: %s", name, errs)
		}
	}
	a, _, _, errs, path := unsandboxedApp(t, fastConfig)
	a.inject["bwrap"] = &fakeEngine{}
	a.environ = append(a.environ, "SBXHOST_AUDIT=log.jsonl")
	if status := a.run([]string{"exec", "-config", path, "--", "true"}); status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	if text, err := os.ReadFile(filepath.Join(a.dir, "log.jsonl")); err != nil || strings.Count(string(text), "\n") != 2 {
		t.Errorf("%s, %v", text, err)
	}
}

func TestTrustIsNeeded(t *testing.T) {
	t.Parallel()
	a, out, errs, _ := testApp(t, &fakeEngine{}, "")
	path := filepath.Join(a.dir, "config.hcl")
	if err := os.WriteFile(path, []byte(fastConfig), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"exec", "true"}, {"explain"}, {"engines", "list"}, {"engines", "probe"}, {"approvals", "add", "true"}} {
		errs.Reset()
		if status := a.run(args); status != 125 || !strings.Contains(errs.String(), "you have not trusted it") {
			t.Errorf("%q: status %d: %s", args, status, errs)
		}
	}
	if status := a.run([]string{"trust"}); status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	if status := a.run([]string{"exec", "true"}); status != 0 {
		t.Errorf("status %d: %s", status, errs)
	}
	out.Reset()
	var list []trustedJSON
	if status := a.run([]string{"trust", "-list", "-json"}); status != 0 || json.Unmarshal(out.Bytes(), &list) != nil || len(list) != 1 || list[0].State != "unchanged" {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
	for _, args := range [][]string{{"trust", "a", "b"}, {"trust", "-list", "-revoke"}, {"trust", "-json"}, {"trust", "nowhere"}, {"trust", "."}} {
		if status := a.run(args); status != 125 {
			t.Errorf("%q: status %d", args, status)
		}
	}
}

func TestApprovalAnswer(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]policy.Approval{
		"o": policy.ApprovedOnce, "once": policy.ApprovedOnce, "y": policy.ApprovedOnce, "yes": policy.ApprovedOnce,
		"s": policy.ApprovedSession, "session": policy.ApprovedSession, "a": policy.ApprovedAlways, "always": policy.ApprovedAlways,
		"": policy.Refused, "n": policy.Refused, "no": policy.Refused, "sure": policy.Refused, "y y": policy.Refused, "\x1b[a": policy.Refused,
	} {
		if got := approvalAnswer(answer, true); got != want {
			t.Errorf("%q is %v", answer, got)
		}
	}
	for _, answer := range []string{"s", "a", "always"} {
		if got := approvalAnswer(answer, false); got != policy.Refused {
			t.Errorf("%q, where nothing is remembered, is %v", answer, got)
		}
	}
}

// Whatever a command holds, the question is one question, and printable.
func FuzzQuestion(f *testing.F) {
	f.Add("touch", "a\nRun it? [o]nce: o\n", "", "/work")
	f.Add("x", "\x1b[2J\u202e\x00\xff", "echo\r\x1b]0;t\x07\n", "/w\n\x1b")
	f.Fuzz(func(t *testing.T, name, arg, script, dir string) {
		text := approvalQuestion(&host.ApprovalRequest{Args: []string{name, arg}, Script: script, Dir: dir, Sandbox: name, Env: []string{arg}, Remembers: true,
			SessionTTL: time.Hour, Decision: policy.Decision{Reason: arg, Hint: dir, Exposed: []string{name}, Sensitive: []string{dir}}})
		if printable(text) != text || strings.ContainsAny(text, "\t") && !strings.ContainsAny(name+arg+script+dir, "\t") {
			t.Errorf("%q", text)
		}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "Run it?") && !strings.HasSuffix(text, line) {
				t.Errorf("a question before the question: %q", text)
			}
		}
	})
}

func TestSpans(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{6 * time.Hour: "6h", 90 * time.Minute: "1h30m", 90 * time.Second: "1m30s", 30 * time.Second: "30s"} {
		if got := shortTime(d); got != want {
			t.Errorf("%v: %q", d, got)
		}
	}
	for d, want := range map[time.Duration]string{0: "just now", time.Minute: "1 minute ago", 3 * time.Hour: "3 hours ago", 49 * time.Hour: "2 days ago"} {
		if got := age(d); got != want {
			t.Errorf("%v: %q", d, got)
		}
	}
}
