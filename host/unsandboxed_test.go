package host_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/shared"
)

func TestApprover(t *testing.T) {
	t.Parallel()
	for answer, runs := range map[policy.Approval]bool{
		policy.NoApproval: false, policy.Refused: false, policy.ApprovedOnce: true, policy.ApprovedSession: true, policy.ApprovedAlways: true, "Once": false,
	} {
		var asked []host.ApprovalRequest
		s := stubs{platform: brokenStub(), noop: noopStub()}
		h := s.host(t, host.Definition{}, func(o *host.Options) { o.Approver = answering(answer, &asked) })
		cmd := h.Command(t.Context(), "", "make", "x")
		cmd.Env = []string{"SECRET=hunter2"}
		var decisions []policy.Decision
		cmd.Decided = func(d policy.Decision) { decisions = append(decisions, d) }
		err := cmd.Run()
		denied, ok := errors.AsType[*host.DeniedError](err)
		if ok == runs || ok && !denied.Refused() {
			t.Errorf("%v: %v, which is no refusal", answer, err)
		}
		if (err == nil) != runs || (len(s.noop.runs) == 1) != runs || len(asked) != 1 {
			t.Errorf("%v: %v, ran %q, asked %d times", answer, err, s.noop.runs, len(asked))
			continue
		}
		r := asked[0]
		if !slices.Equal(r.Args, []string{"make", "x"}) || !slices.Equal(r.Env, []string{"SECRET"}) || r.Sandbox != "a" || r.Remembers || !r.Decision.Ask || !strings.Contains(r.Decision.Reason, "no namespaces") {
			t.Errorf("asked %+v", r)
		}
		last := decisions[len(decisions)-1]
		if runs && (last.Outcome != policy.Unsandboxed || cmd.Report().Decision != "unsandboxed") {
			t.Errorf("%v: %+v, %+v", answer, decisions, cmd.Report())
		}
		if !runs && (cmd.Report().Decision != "denied" || !errors.Is(err, shared.ErrDenied)) {
			t.Errorf("%v: %+v, %v", answer, cmd.Report(), err)
		}
	}
	// One who cannot answer has not approved, whatever comes with the error.
	s := stubs{platform: brokenStub(), noop: noopStub()}
	gone := errors.New("the terminal is gone")
	h := s.host(t, host.Definition{}, func(o *host.Options) {
		o.Approver = func(context.Context, host.ApprovalRequest) (policy.Approval, error) {
			return policy.ApprovedAlways, gone
		}
	})
	if err := h.Command(t.Context(), "", "true").Run(); !errors.Is(err, gone) || len(s.noop.runs) > 0 {
		t.Errorf("%v", err)
	}
}

func TestApprovalsAreRemembered(t *testing.T) {
	t.Parallel()
	var asked []host.ApprovalRequest
	s := stubs{platform: brokenStub(), noop: noopStub()}
	store := approvals.Open(filepath.Join(t.TempDir(), "state"))
	options := func(o *host.Options) {
		o.Approvals.Dir, o.Approvals.Session = store.Dir(), "work"
		o.Approver = answering(policy.ApprovedSession, &asked)
	}
	run := func(change func(*host.Options), args ...string) {
		t.Helper()
		h := s.host(t, host.Definition{}, func(o *host.Options) {
			options(o)
			if change != nil {
				change(o)
			}
		})
		if err := h.Command(t.Context(), "", args...).Run(); err != nil {
			t.Fatal(err)
		}
	}
	run(nil, "make")
	run(nil, "make")
	if len(asked) != 1 {
		t.Fatalf("asked %d times", len(asked))
	}
	run(func(o *host.Options) { o.Approvals.Session = "play" }, "make")
	run(nil, "make", "x")
	if len(asked) != 3 {
		t.Errorf("asked %d times", len(asked))
	}
	stored, err := host.StoredApprovals(store.Dir())
	if err != nil || len(stored) != 3 {
		t.Fatal(stored, err)
	}
	for _, elsewhere := range []string{"state", ""} { // a relative one was looked for in /
		list, err := host.StoredApprovals(elsewhere)
		if gone, refused := host.RevokeApprovals(t.Context(), elsewhere, "none"); (err == nil) != (elsewhere == "") || refused == nil || len(list)+len(gone) > 0 {
			t.Errorf("%q: %v, %v, %v, %v", elsewhere, list, err, gone, refused)
		}
	}
	if gone, err := host.RevokeApprovals(t.Context(), store.Dir(), stored[1].ID, stored[2].ID, "none"); err != nil || len(gone) != 2 {
		t.Errorf("revoked %v, %v", gone, err)
	}
	if run(nil, "make"); len(asked) != 3 {
		t.Errorf("asked %d times", len(asked))
	}
	if run(nil, "make", "x"); len(asked) != 4 {
		t.Errorf("asked %d times", len(asked))
	}
	// A store that says nothing is asked about, and is told of.
	if err := os.Chmod(filepath.Join(store.Dir(), approvals.FileName), 0o666); err != nil {
		t.Fatal(err)
	}
	run(nil, "make")
	if len(asked) != 5 || len(asked[4].Warnings) != 1 || !strings.Contains(asked[4].Warnings[0], "can be written by others") {
		t.Errorf("asked %+v", asked[len(asked)-1])
	}
}

func TestBypass(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		allow bool
		mode  policy.Mode
		rule  policy.Rule
		runs  bool
	}{
		"not allowed":            {false, policy.ModeAlways, policy.RuleBypassNotAllowed, false},
		"allowed, nobody to ask": {true, policy.ModeAsk, policy.RuleApprovalNeeded, false},
		"allowed, always":        {true, policy.ModeAlways, policy.RuleModeAlways, true},
		"allowed, deny":          {true, policy.ModeDeny, policy.RuleModeDeny, false},
	} {
		s := stubs{platform: &stubEngine{name: "bwrap"}, noop: noopStub()}
		h := s.host(t, host.Definition{Limits: host.Limits{PIDs: 1}}, func(o *host.Options) {
			o.Approvals.AllowBypass, o.Approvals.Mode = tt.allow, tt.mode
		})
		cmd := h.Command(t.Context(), "", "true")
		cmd.NoSandbox = true
		err := cmd.Run()
		if got := cmd.Report(); got.Rule != string(tt.rule) || (err == nil) != tt.runs || (len(s.noop.runs) == 1) != tt.runs {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if denied, ok := errors.AsType[*host.DeniedError](err); ok && (denied.Refused() || strings.Contains(err.Error(), "ApprovalOptions.AllowBypass") == tt.allow) {
			t.Errorf("%s: %v", name, err)
		}
		if len(s.platform.runs) > 0 {
			t.Errorf("%s: it ran in a sandbox, which was not what was asked", name)
		}
	}
}

// A command without a sandbox runs where a sandboxed one would: in its caller's
// directory where that lies in the workspace, and in the workspace's root otherwise.
// An approved "rm -rf build" must not run where a daemon was started.
func TestUnsandboxedRunsInTheWorkspace(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sub := filepath.Join(root, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	symlink(t, t.TempDir(), filepath.Join(root, "away"))
	for _, tt := range []struct{ caller, dir, want string }{
		{t.TempDir(), "", root}, {"/", "", root}, {filepath.Join(root, "away"), "", root}, {filepath.Join(root, "gone"), "", root},
		{root, "", root}, {sub, "", sub}, {sub, root, root}, {"/", "sub", sub}, {"/", sub, sub},
		{root, "/", ""}, {root, "..", ""}, {root, "away", ""}, {root, t.TempDir(), ""},
	} {
		for name, def := range map[string]host.Definition{"noop": {Engine: "noop"}, "fallback": {}, "escalated": {}} {
			s := stubs{platform: brokenStub(), noop: noopStub(), root: root}
			var asked []host.ApprovalRequest
			log := filepath.Join(t.TempDir(), "audit.jsonl")
			h := s.host(t, def, func(o *host.Options) {
				o.Dir, o.Approvals.AllowBypass, o.AuditLog = tt.caller, true, log
				o.Approver = answering(policy.ApprovedOnce, &asked)
			})
			cmd := h.Command(t.Context(), "", "make")
			cmd.Dir, cmd.NoSandbox = tt.dir, name == "escalated"
			err := cmd.Run()
			if (err == nil) != (tt.want != "") || tt.want != "" && !slices.Equal(s.noop.dirs, []string{tt.want}) || tt.want == "" && len(s.noop.dirs) > 0 {
				t.Errorf("%s, called in %s with %q: %v, ran in %q, want %q", name, tt.caller, tt.dir, err, s.noop.dirs, tt.want)
			}
			if len(asked) > 0 && asked[0].Dir != tt.want {
				t.Errorf("%s, called in %s with %q: shown as %q", name, tt.caller, tt.dir, asked[0].Dir)
			}
			if text, err := os.ReadFile(log); err != nil || tt.want != "" && !strings.Contains(string(text), `"dir":"`+tt.want+`"`) {
				t.Errorf("%s: logged %s, %v", name, text, err)
			}
		}
	}
}

// With Workspace.Temp, what runs without a sandbox finds the session's files by TMPDIR, and who
// is asked is told that /tmp is another one.
func TestUnsandboxedHasTheSessionsTemp(t *testing.T) {
	t.Parallel()
	for name, def := range map[string]host.Definition{"noop": {Engine: "noop"}, "fallback": {}, "escalated": {}, "own": {Env: map[string]string{"TMPDIR": "/own"}}} {
		for _, temp := range []bool{true, false} {
			s := stubs{platform: brokenStub(), noop: noopStub()}
			var asked []host.ApprovalRequest
			h := s.host(t, def, func(o *host.Options) {
				o.Workspace.Temp, o.Session.Dir, o.Approvals.AllowBypass = temp, realTemp(t), true
				o.Environ = append(o.Environ, "TMPDIR=/callers")
				o.Approver = answering(policy.ApprovedOnce, &asked)
			})
			cmd := h.Command(t.Context(), "", "make")
			cmd.NoSandbox = name == "escalated"
			if err := cmd.Run(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			want := "TMPDIR=/callers"
			if temp {
				want = "TMPDIR=" + h.Workspace().TempAlias()
			}
			if name == "own" {
				want = "TMPDIR=/own"
			}
			if len(s.noop.envs) != 1 || !slices.Contains(s.noop.envs[0], want) {
				t.Errorf("%s: %q, want %s", name, s.noop.envs, want)
			}
			const said = "workspace.temp: without a sandbox /tmp is this machine's; the session's is TMPDIR"
			if slices.Contains(cmd.Report().Degraded, said) != temp {
				t.Errorf("%s: reported %q", name, cmd.Report().Degraded)
			}
			if len(asked) > 0 && slices.Contains(asked[0].Warnings, said) != temp || (len(asked) == 0) != (name == "noop") {
				t.Errorf("%s: asked %+v", name, asked)
			}
		}
	}
}

func TestNoopIsItsOwnApproval(t *testing.T) {
	t.Parallel()
	for mode, runs := range map[policy.Mode]bool{policy.ModeAsk: true, policy.ModeAlways: true, policy.ModeDeny: false} {
		s := stubs{noop: noopStub()}
		h := s.host(t, host.Definition{Engine: "noop"}, func(o *host.Options) { o.Approvals.Mode = mode })
		cmd := h.Command(t.Context(), "", "true")
		if err := cmd.Run(); (err == nil) != runs || !runs && !errors.Is(err, shared.ErrDenied) {
			t.Errorf("%v: %v", mode, err)
		}
		if want := map[bool]policy.Rule{true: policy.RuleEngineNamed, false: policy.RuleModeDeny}[runs]; cmd.Report().Rule != string(want) {
			t.Errorf("%v: rule %q", mode, cmd.Report().Rule)
		}
	}
	// One that goes by another name is not what its author has written.
	s := stubs{platform: noopStub()}
	if err := s.host(t, host.Definition{Engine: "bwrap"}, nil).Command(t.Context(), "", "true").Run(); !errors.Is(err, shared.ErrDenied) {
		t.Errorf("an engine that does not isolate, under the name of one that does: %v", err)
	}
}

// What could not be had without a sandbox is refused before anybody is asked.
func TestFallbackWithoutNoop(t *testing.T) {
	t.Parallel()
	var asked []host.ApprovalRequest
	s := stubs{platform: brokenStub()}
	h := s.host(t, host.Definition{}, func(o *host.Options) { o.Approver = answering(policy.ApprovedAlways, &asked) })
	const want = `sandbox "a": no namespaces; repair it; nor can it run without a sandbox: sandbox "a": this program has no engine that runs commands without a sandbox`
	if err := h.Command(t.Context(), "", "true").Run(); !errors.Is(err, shared.ErrUnavailable) || len(asked) > 0 || err.Error() != want {
		t.Errorf("%v, asked %d times", err, len(asked))
	}
}

func TestApproveAhead(t *testing.T) {
	t.Parallel()
	store := approvals.Open(filepath.Join(t.TempDir(), "state"))
	s := stubs{platform: brokenStub(), noop: noopStub()}
	h := s.host(t, host.Definition{}, func(o *host.Options) { o.Approvals.Dir = store.Dir() })
	if _, err := h.Command(t.Context(), "", "make").Approve(approvals.Once); err != nil {
		t.Fatal(err)
	}
	if err := h.Command(t.Context(), "", "make").Run(); err != nil {
		t.Error(err)
	}
	if err := h.Command(t.Context(), "", "make").Run(); !errors.Is(err, shared.ErrDenied) {
		t.Errorf("twice: %v", err)
	}
	for name, change := range map[string]func(*host.Options){
		"deny":   func(o *host.Options) { o.Approvals.Mode = policy.ModeDeny },
		"always": func(o *host.Options) { o.Approvals.Mode = policy.ModeAlways },
		"store":  func(o *host.Options) { o.Approvals.Dir = "" },
	} {
		h := s.host(t, host.Definition{}, func(o *host.Options) { o.Approvals.Dir = store.Dir(); change(o) })
		if _, err := h.Command(t.Context(), "", "make").Approve(approvals.Always); err == nil {
			t.Errorf("%s: approved", name)
		}
	}
	if list, err := store.List(); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// Who gives up while a person is asked has that as the error.
func TestCancelledWhileAsked(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]error{"cancelled": context.Canceled, "timed out": host.ErrTimedOut} {
		asked := make(chan struct{})
		s := stubs{platform: brokenStub(), noop: noopStub()}
		h := s.host(t, host.Definition{}, func(o *host.Options) {
			o.Approver = func(ctx context.Context, _ host.ApprovalRequest) (policy.Approval, error) {
				close(asked)
				<-ctx.Done()
				return policy.ApprovedOnce, nil // an answer that comes too late
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		cmd := h.Command(ctx, "", "true")
		if want == host.ErrTimedOut {
			cmd.Timeout = 50 * time.Millisecond
		} else {
			go func() { <-asked; cancel() }()
		}
		if err := cmd.Run(); !errors.Is(err, want) || len(s.noop.runs) != 0 {
			t.Errorf("%s: %v, ran %q", name, err, s.noop.runs)
		}
		cancel()
	}
}
