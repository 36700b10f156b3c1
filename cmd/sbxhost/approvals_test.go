package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/approvals"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/inforce"
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
	text := run(125, "exec", "-config", path, "-workdir", a.dir, "-env", "X=secret", "-env", "Y", "-c", "make $1", "all")
	want := fmt.Sprintf("with the values in place of the dots: cd %s && sbxhost approvals add -scope once -config %s -workdir %[1]s -sandbox fast -env X=... -env Y -c 'make $1' -- all\n", a.dir, path)
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
	var list []approvalJSON
	if err := json.Unmarshal([]byte(run(0, "approvals", "list", "-json")), &list); err != nil || len(list) != 1 || list[0].Dir != a.dir || !list[0].Here {
		t.Fatalf("%+v, %v", list, err)
	}
	run(0, "approvals", "add", "-config", path, "--", "echo", "\xff\x1b[2J\n")
	if text := run(0, "approvals", "list"); !strings.Contains(text, `echo $'\xff\x1b[2J\n'`) || printable(text) != text || strings.Count(text, "\n") != 3 {
		t.Errorf("%q", text)
	}
	var raw []approvalJSON
	if err := json.Unmarshal([]byte(run(0, "approvals", "list", "-json")), &raw); err != nil || len(raw) != 2 || len(raw[1].RawArgv) != 2 || string(raw[1].RawArgv[1]) != "\xff\x1b[2J\n" || raw[0].RawArgv != nil {
		t.Errorf("%+v, %v", raw, err)
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
	// In the workspace, it has to be hidden.
	a.environ = append(a.environ, "SBXHOST_AUDIT=log.jsonl")
	a.inject["bwrap"] = &fakeEngine{}
	if status := a.run([]string{"exec", "-config", path, "--", "true"}); status != 125 || !strings.Contains(errs.String(), "audit.path (the audit log): engine") {
		t.Fatalf("status %d: %s", status, errs)
	}
	if err := os.Remove(filepath.Join(a.dir, "log.jsonl")); err != nil {
		t.Fatal(err)
	}
	a.inject["bwrap"] = &fakeEngine{features: shared.Features{shared.FeatureNetworkNone, shared.FeatureFilesystemMinimal, shared.FeatureHidden,
		shared.FeatureNested, shared.FeatureHomePrivate, shared.FeatureTempPrivate, shared.FeatureProcessesHidden, shared.FeatureKernelFiltered, shared.FeatureMetadata}}
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
	f.Add("x", strings.Repeat("y", 3000), strings.Repeat("\t\n", 100), "/w")
	f.Fuzz(func(t *testing.T, name, arg, script, dir string) {
		text, cut := approvalQuestion(&host.ApprovalRequest{Args: []string{name, arg}, Script: script, Dir: dir, Sandbox: name, Env: []string{arg}, Remembers: true,
			SessionTTL: time.Hour, Decision: policy.Decision{Reason: arg, Hint: dir, Exposed: []string{name}, Sensitive: []string{dir}}}, host.TerminalSize{Rows: 24, Cols: 80})
		if cut != strings.Contains(text, "[v]iew") && len(name)+len(arg)+len(script)+len(dir) < minQuestionText {
			t.Errorf("what is left out is not told of: %q", text)
		}
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

// No text is so long, and no script has so many lines, that the screen shows its
// end alone.
func TestQuestionFitsTheScreen(t *testing.T) {
	t.Parallel()
	r := host.ApprovalRequest{Args: []string{"sh"}, Dir: "/work", Workspace: "/work", Sandbox: "fast", Remembers: true, SessionTTL: time.Hour,
		Decision: policy.Decision{Reason: "it was asked to run without its sandbox", Exposed: []string{"every file of yours, to read and to write"}}}
	small := r
	small.Args = []string{"make", "test"}
	commands := []host.ApprovalRequest{small}
	for _, long := range []string{strings.Repeat("x", 5000), strings.Repeat(" ", 5000), strings.Repeat("\u4e2d", 5000), strings.Repeat("\t", 5000), strings.Repeat("\n", 5000)} {
		inArgs, inScript, inDir := r, r, r
		inArgs.Args = []string{"sh", "-c", "FIRST" + long + "LAST"}
		inScript.Script = "FIRST" + long + "\n" + strings.Repeat("# "+long+"\n", 50) + "LAST"
		inDir.Dir = "/FIRST" + long + "LAST"
		commands = append(commands, inArgs, inScript, inDir)
	}
	for i, r := range commands {
		for _, size := range []host.TerminalSize{{Rows: 24, Cols: 80}, {Rows: 50, Cols: 200}, {Rows: 22, Cols: 70}} {
			text, cut := approvalQuestion(&r, size)
			if rows := screenRows(text, int(size.Cols)); rows > int(size.Rows) {
				t.Errorf("command %d needs %d rows of %d:\n%s", i, rows, size.Rows, text)
			}
			if cut != (i > 0) || strings.Contains(text, "LEFT OUT") != cut || strings.Contains(text, "[v]iew all of it") != cut || i > 0 && (!strings.Contains(text, "FIRST") || !strings.Contains(text, "LAST")) {
				t.Errorf("command %d: cut is %v:\n%s", i, cut, text)
			}
		}
		// Where nothing is known of the screen, there is a bound all the same.
		if text, _ := approvalQuestion(&r, host.TerminalSize{}); len([]rune(text)) > (maxQuestionLines+5)*(maxQuestionText+100) {
			t.Errorf("command %d: %d characters", i, len([]rune(text)))
		}
	}
}

// screenRows lets a text run over the right margin as a terminal does.
func screenRows(text string, columns int) int {
	rows, column := 1, 0
	for _, r := range text {
		width := 1
		if r == '\u4e2d' {
			width = 2
		}
		switch {
		case r == '\n':
			rows, column = rows+1, 0
			continue
		case column+width > columns:
			rows, column = rows+1, 0
		}
		column += width
	}
	return rows
}

func TestScopeText(t *testing.T) {
	t.Parallel()
	for want, j := range map[string]approvalJSON{
		"always":                        {Scope: approvals.Always},
		"once, 6h left":                 {Scope: approvals.Once, Here: true, LeftMS: (6 * time.Hour).Milliseconds()},
		"once, 1s left":                 {Scope: approvals.Once, Here: true, LeftMS: 1},
		"session, 366 days left":        {Scope: approvals.Session, Here: true, LeftMS: (366 * 24 * time.Hour).Milliseconds()},
		"session elsewhere, 1m30s left": {Scope: approvals.Session, LeftMS: 90_000},
		`session "a\nb", 1h left`:       {Scope: approvals.Session, Session: "name:a\nb", LeftMS: 3_600_000},
	} {
		if got := scopeText(&j); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{6 * time.Hour: "6h", 90 * time.Minute: "1h30m", 90 * time.Second: "1m30s", 30 * time.Second: "30s"} {
		if got := shortTime(d); got != want {
			t.Errorf("%v: %q", d, got)
		}
	}
	for d, want := range map[time.Duration]string{0: "just now", time.Minute: "1 minute ago", 3 * time.Hour: "3 hours ago", 49 * time.Hour: "2 days ago"} {
		if got := inforce.Age(d); got != want {
			t.Errorf("%v: %q", d, got)
		}
	}
}

// Letters that are written from right to left would have a terminal show what is
// between them in the other order.
func TestQuestionIsInOrder(t *testing.T) {
	t.Parallel()
	for _, r := range []host.ApprovalRequest{
		{Args: []string{"cp", "\u05d0", "1", "\U0001e900"}, Dir: "/w", Workspace: "/w"},
		{Script: "cp '\u05d0' 1 \U0001e900\n", Dir: "/w/\u0634", Workspace: "/w/\u0634\u0634"},
	} {
		text, _ := approvalQuestion(&r, host.TerminalSize{})
		if strings.ContainsAny(text, "\u05d0\u0634\U0001e900") || !strings.Contains(text, `\u05d0`) || !strings.Contains(text, `\U0001e900`) {
			t.Errorf("%+v: %s", r, text)
		}
	}
	r := host.ApprovalRequest{Args: []string{"cp", "é", "文"}, Dir: "/w", Workspace: "/w"}
	if text, _ := approvalQuestion(&r, host.TerminalSize{}); !strings.Contains(text, "cp 'é' '文'") {
		t.Error(text)
	}
}
