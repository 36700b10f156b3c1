package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/approvals"
	"github.com/sbxhost/sbxhost/audit"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/policy"
	"github.com/sbxhost/sbxhost/shared"
)

// stubEngine runs nothing: its commands succeed at once, unless it does not
// work on this machine.
type stubEngine struct {
	name       string
	unconfined bool
	broken     string // why it does not work here
	unproven   bool   // it has not found that, it only failed
	startErr   error
	refusals   []error // what the first calls, of Open or Start, give
	streamed   bool    // it says that it takes a terminal, but none reaches it
	lacks      shared.Features

	mu      sync.Mutex
	runs    []string
	dirs    []string // that they were to run in
	envs    [][]string
	options []string // that sandboxes were opened with
	prepare []bool   // likewise
	closed  int      // sandboxes
}

func (e *stubEngine) Info(context.Context) (shared.Info, error) {
	features := shared.Features{shared.FeatureNetworkNone, shared.FeatureNetworkHost, shared.FeatureFilesystemMinimal, shared.FeatureFilesystemHost, shared.FeatureUser,
		shared.FeatureNested, shared.FeatureHomePrivate, shared.FeatureTempPrivate, shared.FeatureProcessesHidden, shared.FeatureKernelFiltered, shared.FeatureMetadata}
	if e.unconfined {
		features = shared.Features{shared.FeatureUnconfined, shared.FeatureUser}
	}
	if e.streamed {
		features = append(features, shared.FeatureTTY)
	}
	features = slices.DeleteFunc(features, e.lacks.Has)
	return shared.Info{Name: e.name, Version: "0", Features: features}, nil
}

func (e *stubEngine) Probe(context.Context) (shared.Probe, error) {
	return shared.Probe{Ready: e.broken == "", Reason: e.broken, Fix: "repair it", Unusable: e.broken != "" && !e.unproven}, nil
}

func (e *stubEngine) Open(_ context.Context, spec shared.Spec) (shared.Sandbox, error) {
	if spec.Unconfined != e.unconfined {
		return nil, &shared.Error{Kind: shared.ErrInvalidSpec, Message: "the wrong engine for it"}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.refusal(); err != nil {
		return nil, err
	}
	e.options = append(e.options, string(spec.Options))
	e.prepare = append(e.prepare, spec.Prepare)
	return stubSandbox{e}, nil
}

// refusal takes the first of the refusals. Its caller holds the lock.
func (e *stubEngine) refusal() (err error) {
	if len(e.refusals) > 0 {
		err, e.refusals = e.refusals[0], e.refusals[1:]
	}
	return err
}

type stubSandbox struct{ *stubEngine }

func (s stubSandbox) Close(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

func (s stubSandbox) Plan(context.Context, shared.Command) (shared.Plan, error) {
	return shared.Plan{}, nil
}

func (s stubSandbox) Start(_ context.Context, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
	if s.broken != "" && s.unproven {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Message: s.broken}
	}
	if s.broken != "" {
		return nil, &shared.Error{Kind: shared.ErrUnusable, Message: s.broken, Hint: "repair it"}
	}
	if s.startErr != nil {
		return nil, s.startErr
	}
	if cmd.TTY || stdio.Stdin != nil {
		return nil, &shared.Error{Kind: shared.ErrUnsupported, Attribute: "tty", Message: "a terminal cannot be streamed"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refusal(); err != nil {
		return nil, err
	}
	s.runs = append(s.runs, strings.Join(cmd.Args, " "))
	s.dirs = append(s.dirs, cmd.Dir)
	s.envs = append(s.envs, cmd.Env)
	return stubProcess{}, nil
}

type stubProcess struct{}

func (stubProcess) Wait(context.Context) (shared.Result, error) { return shared.Result{}, nil }

func (stubProcess) Signal(context.Context, shared.Signal) error { return os.ErrProcessDone }

func (stubProcess) Events() <-chan shared.Event { return nil }

// stubs is a host whose engines are stubs.
type stubs struct {
	platform, docker, noop *stubEngine
	root                   string
}

func (s *stubs) host(t *testing.T, def host.Definition, change func(*host.Options)) *host.Host {
	t.Helper()
	if s.root == "" {
		s.root = t.TempDir()
	}
	o := host.Options{
		Workspace: host.WorkspaceOptions{Root: s.root},
		Sandboxes: map[string]host.Definition{"a": def},
		Environ:   []string{"HOME=" + t.TempDir(), "PATH=/bin"},
		Dir:       s.root,
		Inject:    map[string]shared.Engine{},
	}
	for name, e := range map[string]*stubEngine{"docker": s.docker, "noop": s.noop} {
		if e != nil {
			o.Inject[name] = e
		}
	}
	if s.platform != nil {
		o.Inject["bwrap"], o.Inject["seatbelt"] = s.platform, s.platform
	}
	if change != nil {
		change(&o)
	}
	h, err := host.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func noopStub() *stubEngine { return &stubEngine{name: "noop", unconfined: true} }

func brokenStub() *stubEngine {
	return &stubEngine{name: "bwrap", broken: "no namespaces"}
}

func answering(a policy.Approval, asked *[]host.ApprovalRequest) host.Approver {
	return func(_ context.Context, r host.ApprovalRequest) (policy.Approval, error) {
		*asked = append(*asked, r)
		return a, nil
	}
}

func TestAutoTakesTheFirstThatWorks(t *testing.T) {
	t.Parallel()
	good := &stubEngine{name: "bwrap"}
	for name, tt := range map[string]struct {
		platform, docker *stubEngine
		want             string
	}{
		"the platform's":      {good, &stubEngine{name: "docker"}, "bwrap"},
		"docker in its place": {brokenStub(), &stubEngine{name: "docker"}, "docker"},
		"none":                {brokenStub(), &stubEngine{name: "docker", broken: "no daemon"}, ""},
	} {
		s := stubs{platform: tt.platform, docker: tt.docker, noop: noopStub()}
		h := s.host(t, host.Definition{}, nil)
		cmd := h.Command(t.Context(), "", "true")
		err := cmd.Run()
		if got := cmd.Report(); tt.want != "" && (err != nil || got.Engine != tt.want || got.Decision != "sandboxed") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if tt.want == "" {
			var denied *host.DeniedError
			if !errors.As(err, &denied) || !denied.Decision.Ask || !errors.Is(err, shared.ErrDenied) || !strings.Contains(err.Error(), `no namespaces; nor does engine "docker": no daemon`) {
				t.Errorf("%s: %v", name, err)
			}
			if err := h.Check(t.Context(), ""); !errors.Is(err, shared.ErrUnavailable) {
				t.Errorf("%s: Check: %v", name, err)
			}
		}
		x, err := h.Command(t.Context(), "", "true").Explain()
		if err != nil || x.Asks != (tt.want == "") || tt.want != "" && x.Engine != tt.want {
			t.Errorf("%s: explained as %+v, %v", name, x, err)
		}
		if len(s.noop.runs) > 0 {
			t.Errorf("%s: without a sandbox ran %q", name, s.noop.runs)
		}
	}
}

// What "auto" is given of options is docker's alone; and a docker that was
// declared for other definitions is none for one that gives it no image.
// A report says of a command that did not run who refused it and why, as the audit log does.
func TestReportOfARefusal(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		def     host.Definition
		engine  *stubEngine
		sandbox string
		ctx     context.Context
		change  func(*host.Cmd)
		want    host.Report // of which the texts are a part
	}{
		"no such sandbox":     {sandbox: "b", want: host.Report{Sandbox: "b", Decision: "denied", End: host.End{Error: "unknown sandbox"}}},
		"not held":            {engine: &stubEngine{name: "bwrap", lacks: shared.Features{shared.FeatureNetworkNone}}, want: host.Report{Sandbox: "a", Engine: "bwrap", Decision: "denied", End: host.End{Error: "network", Attribute: "network"}}},
		"by the engine":       {engine: &stubEngine{name: "bwrap", startErr: &shared.Error{Kind: shared.ErrUnsupported, Attribute: "limits.pids", Message: "it cannot", Hint: "another"}}, want: host.Report{Sandbox: "a", Engine: "bwrap", Decision: "sandboxed", Rule: "engine-isolates", End: host.End{Error: "it cannot", Attribute: "limits.pids", Hint: "another"}}},
		"outside":             {change: func(c *host.Cmd) { c.Dir = "/usr" }, want: host.Report{Sandbox: "a", Decision: "denied", End: host.End{Error: "/usr", Attribute: "Dir"}}},
		"nobody approves":     {engine: brokenStub(), def: host.Definition{Fallback: host.FallbackApprove}, want: host.Report{Sandbox: "a", Engine: "bwrap", Decision: "denied", Rule: "approval-needed", End: host.End{Error: "no namespaces"}}},
		"not wanted any more": {ctx: cancelled, want: host.Report{End: host.End{Error: context.Canceled.Error()}}},
	} {
		s := stubs{platform: tt.engine, noop: noopStub()}
		if s.platform == nil {
			s.platform = &stubEngine{name: "bwrap"}
		}
		ctx := t.Context()
		if tt.ctx != nil {
			ctx = tt.ctx
		}
		if tt.def.Engine == "" {
			tt.def.Engine = "bwrap"
		}
		cmd := s.host(t, tt.def, nil).Command(ctx, tt.sandbox, "true")
		if tt.change != nil {
			tt.change(cmd)
		}
		if err := cmd.Start(); err == nil {
			t.Errorf("%s: it runs", name)
		}
		got, want := cmd.Report(), tt.want
		if got.Outcome != "failed" || got.Result != nil || got.Sandbox != want.Sandbox || got.Decision != want.Decision || got.Attribute != want.Attribute || want.Hint != "" && got.Hint != want.Hint || want.Rule != "" && got.Rule != want.Rule ||
			!strings.Contains(got.Error, want.Error) || want.Decision == "denied" && got.Reason == "" || want.Engine != "" && got.Engine != want.Engine {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAutoWithOptions(t *testing.T) {
	t.Parallel()
	options := json.RawMessage(`{"image":"debian"}`)
	s := stubs{platform: &stubEngine{name: "bwrap"}, docker: &stubEngine{name: "docker"}, noop: noopStub()}
	h := s.host(t, host.Definition{Config: options}, nil)
	if err := h.Command(t.Context(), "", "true").Run(); err != nil || !slices.Equal(s.platform.options, []string{""}) {
		t.Errorf("the platform's engine: %q, %v", s.platform.options, err)
	}
	s.platform = brokenStub()
	h = s.host(t, host.Definition{Config: options}, func(o *host.Options) { o.Approvals.Mode = policy.ModeDeny })
	if err := h.Command(t.Context(), "", "true").Run(); err != nil || !slices.Equal(s.docker.options, []string{string(options)}) {
		t.Errorf("docker: %q, %v", s.docker.options, err)
	}
	s.docker.broken = "no daemon"
	h = s.host(t, host.Definition{Config: options}, func(o *host.Options) { o.Approvals.Mode = policy.ModeAlways })
	if err := h.Command(t.Context(), "", "true").Run(); err != nil || !slices.Equal(s.noop.options, []string{""}) {
		t.Errorf("without a sandbox: %q, %v", s.noop.options, err)
	}

	s.docker = nil
	h = s.host(t, host.Definition{}, func(o *host.Options) {
		o.Engines = map[string]host.EngineSource{"docker": {Source: t.TempDir() + "/none"}}
	})
	var denied *host.DeniedError
	if err := h.Command(t.Context(), "", "true").Run(); !errors.As(err, &denied) || !denied.Decision.Ask || !strings.Contains(err.Error(), "no namespaces") {
		t.Errorf("without an image: %v", err)
	}
}

// Only an engine that has found what this machine lacks is passed over. Every other
// failure, which a command in another sandbox can bring about, is an error: nothing
// runs in the next engine, or without a sandbox, nobody is asked, and the probe of an
// engine that does not work changes nothing.
func TestFallbackNeedsAFinding(t *testing.T) {
	t.Parallel()
	failures := []error{
		shared.ErrUnavailable, shared.ErrUnsupported, shared.ErrEngineLost, shared.ErrBroken, errors.New("other"),
		&shared.Error{Kind: shared.ErrNotFound}, &shared.Error{Kind: shared.ErrDenied},
	}
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM, syscall.EFBIG, syscall.ENOSPC, syscall.EDQUOT} {
		failures = append(failures, &shared.Error{Kind: shared.ErrUnavailable, Message: errno.Error()}, errno)
	}
	for _, failure := range failures {
		for _, mode := range []policy.Mode{policy.ModeAlways, policy.ModeAsk} {
			for _, broken := range []string{"", "out of everything"} {
				var asked []host.ApprovalRequest
				s := stubs{platform: &stubEngine{name: "bwrap", startErr: failure}, docker: &stubEngine{name: "docker"}, noop: noopStub()}
				want := failure
				if broken != "" {
					s.platform.broken, s.platform.unproven, want = broken, true, shared.ErrUnavailable
				}
				h := s.host(t, host.Definition{Fallback: "approve"}, func(o *host.Options) {
					o.Approvals.Mode = mode
					o.Approver = answering(policy.ApprovedAlways, &asked)
				})
				if err := h.Command(t.Context(), "", "true").Run(); !errors.Is(err, want) || len(s.docker.runs)+len(s.noop.runs)+len(asked) > 0 {
					t.Errorf("%v: %v; docker ran %q, without a sandbox ran %q, asked %d times", failure, err, s.docker.runs, s.noop.runs, len(asked))
				}
				if broken == "" {
					continue
				}
				if _, err := h.Command(t.Context(), "", "true").Explain(); !errors.Is(err, shared.ErrUnavailable) || errors.Is(err, shared.ErrUnusable) {
					t.Errorf("Explain: %v", err)
				}
			}
		}
	}
}

func TestApprover(t *testing.T) {
	t.Parallel()
	for answer, runs := range map[policy.Approval]bool{
		policy.NoApproval: false, policy.Refused: false, policy.ApprovedOnce: true, policy.ApprovedSession: true, policy.ApprovedAlways: true, 99: false, -1: false,
	} {
		var asked []host.ApprovalRequest
		s := stubs{platform: brokenStub(), noop: noopStub()}
		h := s.host(t, host.Definition{}, func(o *host.Options) { o.Approver = answering(answer, &asked) })
		cmd := h.Command(t.Context(), "", "make", "x")
		cmd.Env = []string{"SECRET=hunter2"}
		var decisions []policy.Decision
		cmd.Decided = func(d policy.Decision) { decisions = append(decisions, d) }
		err := cmd.Run()
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
		o.Approvals.Store, o.Approvals.Session = store, "work"
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
	// A store that says nothing is asked about, and is told of.
	if err := os.Chmod(filepath.Join(store.Dir(), approvals.FileName), 0o666); err != nil {
		t.Fatal(err)
	}
	run(nil, "make")
	if len(asked) != 4 || len(asked[3].Warnings) != 1 || !strings.Contains(asked[3].Warnings[0], "can be written by others") {
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
				o.Dir, o.Approvals.AllowBypass, o.Audit.Path = tt.caller, true, log
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
				at, err := h.Workspace().ResolveForWrite("/tmp/x")
				must(t, err)
				want = "TMPDIR=" + filepath.Dir(at)
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
	const want = `sandbox "a": no namespaces; repair it; and this program has no engine that runs commands without a sandbox`
	if err := h.Command(t.Context(), "", "true").Run(); !errors.Is(err, shared.ErrUnavailable) || len(asked) > 0 || err.Error() != want {
		t.Errorf("%v, asked %d times", err, len(asked))
	}
}

func TestApproveAhead(t *testing.T) {
	t.Parallel()
	store := approvals.Open(filepath.Join(t.TempDir(), "state"))
	s := stubs{platform: brokenStub(), noop: noopStub()}
	h := s.host(t, host.Definition{}, func(o *host.Options) { o.Approvals.Store = store })
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
		"store":  func(o *host.Options) { o.Approvals.Store = nil },
	} {
		h := s.host(t, host.Definition{}, func(o *host.Options) { o.Approvals.Store = store; change(o) })
		if _, err := h.Command(t.Context(), "", "make").Approve(approvals.Always); err == nil {
			t.Errorf("%s: approved", name)
		}
	}
	if list, err := store.List(); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestAuditLines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	s := stubs{platform: brokenStub(), noop: noopStub()}
	logged := func(o *host.Options) { o.Audit.Path = path }
	h := s.host(t, host.Definition{}, func(o *host.Options) { logged(o); o.Approvals.Mode = policy.ModeAlways })
	if err := h.Command(t.Context(), "", "one").Run(); err != nil {
		t.Fatal(err)
	}
	h = s.host(t, host.Definition{}, logged)
	h.Command(t.Context(), "", "two").Run()
	h.Command(t.Context(), "nowhere", "three").Run()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		var r audit.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Join([]string{string(r.Event), strings.Join(r.Argv, " "), r.Decision, r.Rule, r.Outcome}, "|"))
	}
	want := []string{
		"decision|one|sandboxed|engine-isolates|", // which turned out not to be
		"decision|one|unsandboxed|mode-always|", "end||||exited",
		"decision|two|sandboxed|engine-isolates|", "decision|two|denied|approval-needed|",
		"decision|three|denied||",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Options.Record gets what the log gets, with a log and without one, and can refuse a command.
func TestRecordCallback(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	const trace = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
	for _, path := range []string{"", path} {
		var mu sync.Mutex
		var got []audit.Record
		var refusal error
		record := func(o *host.Options) {
			o.Audit.Path = path
			o.Record = func(r audit.Record) error {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, r)
				return refusal
			}
		}
		s := stubs{platform: &stubEngine{name: "bwrap"}}
		h := s.host(t, host.Definition{}, record)
		cmd := h.Command(t.Context(), "", "true")
		cmd.TraceParent = trace
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		h.Command(t.Context(), "nowhere", "true").Run()
		if len(got) != 3 || got[0].Event != audit.EventDecision || got[1].Event != audit.EventEnd || got[1].Outcome != "exited" || got[2].Decision != "denied" ||
			got[0].Command != got[1].Command || got[2].Command == got[0].Command || got[1].TraceParent != trace || got[0].Version != 1 || got[0].Time.IsZero() {
			t.Errorf("got %+v", got)
		}
		refusal = errors.New("the collector is away")
		runs := len(s.platform.runs)
		if err := h.Command(t.Context(), "", "true").Run(); !errors.Is(err, refusal) || !errors.Is(err, shared.ErrDenied) || len(s.platform.runs) != runs {
			t.Errorf("%v, ran %q", err, s.platform.runs)
		}
		h = s.host(t, host.Definition{}, func(o *host.Options) { record(o); o.Audit.Continue = true })
		cmd = h.Command(t.Context(), "", "true")
		if err := cmd.Run(); err != nil || len(cmd.Report().Degraded) != 2 {
			t.Errorf("%v, reported %q", err, cmd.Report().Degraded)
		}
	}
	if text, err := os.ReadFile(path); err != nil || strings.Count(string(text), "\n") != 7 || !strings.Contains(string(text), trace) {
		t.Errorf("%s, %v", text, err)
	}
}

// What cannot be logged does not run.
func TestAuditStops(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := stubs{platform: &stubEngine{name: "bwrap"}}
	h := s.host(t, host.Definition{}, func(o *host.Options) { o.Audit.Path = dir })
	err := h.Command(t.Context(), "", "true").Run()
	var e *shared.Error
	if !errors.As(err, &e) || e.Attribute != "audit.path" || len(s.platform.runs) > 0 {
		t.Errorf("%v, ran %q", err, s.platform.runs)
	}
	h = s.host(t, host.Definition{}, func(o *host.Options) { o.Audit.Path, o.Audit.Continue = dir, true })
	cmd := h.Command(t.Context(), "", "true")
	var told []string
	cmd.Events = func(e shared.Event) { told = append(told, e.Message) }
	if err := cmd.Run(); err != nil || len(s.platform.runs) != 1 || len(cmd.Report().Degraded) != 2 || len(told) != 2 {
		t.Errorf("%v, ran %q, told %q, reported %q", err, s.platform.runs, told, cmd.Report().Degraded)
	}
	if _, err := host.New(t.Context(), host.Options{Workspace: host.WorkspaceOptions{Root: s.root}, Audit: audit.Options{Path: "relative"}}); err == nil {
		t.Error("a relative path")
	}
}

// What an engine refuses because somebody has changed the files meanwhile is tried again, and
// is one command to the caller and the log. What lasts is told in the end, and what cannot pass at once.
func TestRefusedViewIsTriedAgain(t *testing.T) {
	t.Parallel()
	gone := &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "protected: git config", Message: "it is gone"}
	raced := &shared.Error{Kind: shared.ErrDenied, Message: "it has been replaced"}
	short := &shared.Error{Kind: shared.ErrUnavailable, Message: "no descriptors"}
	lasting := &shared.Error{Kind: shared.ErrUnusable, Message: "no namespaces"}
	for name, tt := range map[string]struct {
		refusals []error
		want     error
		left     int // refusals that nobody asked for
	}{
		"when opened":       {refusals: []error{gone}},
		"when both":         {refusals: []error{gone, nil, raced, raced, gone}},
		"always":            {slices.Repeat([]error{gone, raced}, 50), gone, 95},
		"nothing that ends": {[]error{lasting, lasting}, lasting, 1},
		"a shortage":        {[]error{short, short}, short, 1},
		"a lost engine":     {[]error{nil, shared.ErrEngineLost, gone}, shared.ErrEngineLost, 1},
	} {
		s := stubs{platform: &stubEngine{name: "stub", refusals: tt.refusals}}
		log := filepath.Join(t.TempDir(), "audit.jsonl")
		h := s.host(t, host.Definition{Engine: "stub", Fallback: "deny"}, func(o *host.Options) {
			o.Inject["stub"] = s.platform
			o.Audit.Path = log
		})
		cmd := h.Command(t.Context(), "", "true")
		told := 0
		cmd.Decided = func(policy.Decision) { told++ }
		if err := cmd.Run(); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if got := cmd.Report().Sandbox; got != "a" {
			t.Errorf("%s: the report is of sandbox %q", name, got)
		}
		if ran := len(s.platform.runs); (tt.want == nil) != (ran == 1) || ran > 1 || len(s.platform.refusals) != tt.left {
			t.Errorf("%s: it ran %d times, and the engine was to refuse %d times more", name, ran, len(s.platform.refusals))
		}
		text, err := os.ReadFile(log)
		if decisions := strings.Count(string(text), `"decision":"sandboxed"`); err != nil || told > 1 || decisions != told || tt.want == nil && told != 1 {
			t.Errorf("%s: told %d times, and logged %d times: %s", name, told, decisions, text)
		}
	}
}

// A program that runs one command has no use for a sandbox for the next.
func TestOneShot(t *testing.T) {
	t.Parallel()
	for _, oneShot := range []bool{false, true} {
		e := &stubEngine{name: "stub"}
		h, err := host.New(t.Context(), host.Options{
			Sandboxes: map[string]host.Definition{"s": {Engine: "stub"}}, OneShot: oneShot,
			Workspace: host.WorkspaceOptions{Root: t.TempDir()}, Inject: map[string]shared.Engine{"stub": e},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Command(t.Context(), "s", "true").Run(); err != nil {
			t.Error(err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if !slices.Equal(e.prepare, []bool{!oneShot}) {
			t.Errorf("one shot %v: the engine was asked to prepare: %v", oneShot, e.prepare)
		}
	}
}

// What no command could run with is an error of New, by its attribute.
func TestNewValidates(t *testing.T) {
	t.Parallel()
	one := func(d host.Definition) host.Options {
		return host.Options{Sandboxes: map[string]host.Definition{"a": {}, "s": d}, Inject: map[string]shared.Engine{"stub": &stubEngine{name: "stub"}}}
	}
	for want, o := range map[string]host.Options{
		`sandbox "s": engine: there is no engine "bwarp"; those there are: `:                            one(host.Definition{Engine: "bwarp"}),
		`sandbox "s": filesystem: unknown value "hots"; use "minimal" or "host"`:                        one(host.Definition{Filesystem: "hots"}),
		`sandbox "s": fallback: unknown value "ask"`:                                                    one(host.Definition{Fallback: "ask"}),
		`sandbox "s": git: unknown value "none"`:                                                        one(host.Definition{Git: "none"}),
		`sandbox "s": limits.enforce: unknown value "yes"`:                                              one(host.Definition{Limits: host.Limits{Enforce: "yes"}}),
		`sandbox "s": limits.timeout: it is negative`:                                                   one(host.Definition{Limits: host.Limits{Timeout: -1}}),
		`sandbox "s": limits.grace: it is negative`:                                                     one(host.Definition{Limits: host.Limits{Grace: -1}}),
		`sandbox "s": limits.cpus: it is negative`:                                                      one(host.Definition{Limits: host.Limits{CPUs: math.NaN()}}),
		`Options.StartTimeout is negative`:                                                              {StartTimeout: -1},
		`Options.Approvals.SessionTTL is negative`:                                                      {Approvals: host.ApprovalOptions{SessionTTL: -1}},
		`Options.Builtins is empty, and there is no other engine: call host.ServeBuiltin first in main`: {},
		"": one(host.Definition{Engine: "seatbelt", Filesystem: host.FilesystemHost, Git: host.GitFull}), // of another platform
	} {
		o.Workspace.Root = t.TempDir()
		h, err := host.New(t.Context(), o)
		if err == nil {
			h.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v; want %s", err, want)
		}
	}
}

// A definition that New was not given is checked as New checks those; commands of equal ones
// share a sandbox, of which few are kept.
func TestCommandIn(t *testing.T) {
	t.Parallel()
	s := stubs{platform: &stubEngine{name: "bwrap"}, noop: noopStub()}
	h := s.host(t, host.Definition{}, nil)
	env := func(i int) host.Definition { return host.Definition{Env: map[string]string{"A": fmt.Sprint(i)}} }
	name := ""
	for i := range 3 * 20 {
		cmd := h.CommandIn(t.Context(), env(i/3), "true")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			name = cmd.Report().Sandbox
		}
		if got := cmd.Report().Sandbox; !strings.HasPrefix(got, "definition-") || got != name {
			t.Errorf("it is called %q, and then %q: a value is no part of it", name, got)
		}
	}
	if opened := len(s.platform.options); opened != 20 || s.platform.closed != 4 {
		t.Errorf("%d sandboxes were opened, and %d closed: want 20 and 4", opened, s.platform.closed)
	}
	cmd := h.CommandIn(t.Context(), host.Definition{ReadOnly: true}, "true")
	if err := cmd.Run(); err != nil || cmd.Report().Sandbox == name {
		t.Errorf("another definition: %q, %v", cmd.Report().Sandbox, err)
	}
	for want, def := range map[string]host.Definition{
		`: engine: there is no engine "bwarp"; those there are: `: {Engine: "bwarp"},
		`: limits.timeout: it is negative`:                        {Limits: host.Limits{Timeout: -1}},
	} {
		cmd := h.CommandIn(t.Context(), def, "true")
		err := cmd.Run()
		e, ok := errors.AsType[*host.SandboxError](err)
		if !ok || !strings.HasPrefix(e.Sandbox, "definition-") || !strings.Contains(err.Error(), want) || cmd.Report().Sandbox != e.Sandbox {
			t.Errorf("got %v, want %s", err, want)
		}
		if _, err := h.CommandIn(t.Context(), def, "true").Explain(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("explain: got %v, want %s", err, want)
		}
	}
	cmd = h.CommandIn(t.Context(), host.Definition{Engine: "noop"}, "true")
	if err := cmd.Run(); err != nil || cmd.Report().Engine != "noop" {
		t.Errorf("%+v, %v", cmd.Report(), err)
	}
	// Many at once, more than are kept.
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if err := h.CommandIn(t.Context(), env(i%30), "true").Run(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// An engine that holds a part is refused by attribute, or runs commands that are told the rest.
func TestIsolationBestEffort(t *testing.T) {
	t.Parallel()
	some := shared.Features{shared.FeatureNetworkNone, shared.FeatureTempPrivate, shared.FeatureProcessesHidden}
	for _, tt := range []struct {
		lacks     shared.Features
		def       host.Definition
		attribute string // of the refusal
		told      string
	}{
		{some, host.Definition{}, "network", ""},
		{some, host.Definition{Network: host.Network{Host: true}}, "isolation", ""},
		{some, host.Definition{Isolation: host.IsolationFull, Network: host.Network{Host: true}}, "isolation", ""},
		{some, host.Definition{Isolation: host.IsolationBestEffort}, "", "network = false, a private /tmp, hiding other processes"},
		{some, host.Definition{Isolation: host.IsolationBestEffort, Limits: host.Limits{PIDs: 10}}, "limits.pids", ""},
		{nil, host.Definition{Limits: host.Limits{PIDs: 10, Enforce: host.EnforceBestEffort}}, "", "limits.pids"},
		{nil, host.Definition{Isolation: host.IsolationBestEffort}, "", ""},
		{shared.Features{shared.FeatureFilesystemMinimal}, host.Definition{Isolation: host.IsolationBestEffort}, "", `filesystem = "minimal"`},
		{shared.Features{shared.FeatureFilesystemMinimal, shared.FeatureFilesystemHost}, host.Definition{Isolation: host.IsolationBestEffort}, "filesystem", ""},
	} {
		s := stubs{platform: &stubEngine{name: "bwrap", lacks: tt.lacks}}
		cmd := s.host(t, tt.def, nil).Command(t.Context(), "", "true")
		var told []string
		cmd.Events = func(e shared.Event) {
			if what, ok := strings.CutSuffix(strings.Split(e.Message, ": engine")[0], " is not held"); ok {
				told = append(told, what)
			}
		}
		err := cmd.Run()
		var e *shared.Error
		switch {
		case tt.attribute == "" && (err != nil || strings.Join(told, ", ") != tt.told):
			t.Errorf("%+v: %v, told %q", tt.def, err, told)
		case tt.attribute != "" && (!errors.As(err, &e) || e.Attribute != tt.attribute || !errors.Is(err, shared.ErrUnsupported) || cmd.Report().Rule != "feature-missing"):
			t.Errorf("%+v: %v, %+v", tt.def, err, cmd.Report())
		}
		if plan, err := s.host(t, tt.def, nil).Command(t.Context(), "", "true").Explain(); tt.attribute == "" && (err != nil || !strings.Contains(strings.Join(plan.Plan.Notes, "\n"), strings.Split(tt.told, ", ")[0])) {
			t.Errorf("%+v: explained as %+v, %v", tt.def, plan, err)
		}
	}
}

// What noop does nothing for is told, attribute by attribute.
func TestNoopTellsWhatItDoesNotHold(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		def  host.Definition
		want string
	}{
		{host.Definition{Network: host.Network{Host: true}}, ""},
		{host.Definition{}, "network = false"},
		{host.Definition{ReadOnly: true, DenyPaths: []string{"a"}, ProtectPaths: []string{"b"}}, "network = false, read_only, deny_paths, protect_paths"},
	} {
		s := stubs{noop: noopStub()}
		tt.def.Engine = "noop"
		cmd := s.host(t, tt.def, nil).Command(t.Context(), "", "true")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, note := range cmd.Report().Degraded {
			what, ok := strings.CutSuffix(note, ` is not held: engine "noop" does not isolate commands`)
			if !ok {
				t.Errorf("told %q", note)
			}
			got = append(got, what)
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%+v: told of %q, want %s", tt.def, got, tt.want)
		}
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
