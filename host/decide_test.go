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

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/audit"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/shared"
)

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
		"no such sandbox":     {sandbox: "b", want: host.Report{Sandbox: "b", Decision: "denied", Rule: "not-started", End: host.End{Error: "unknown sandbox"}}},
		"not held":            {engine: &stubEngine{name: "bwrap", lacks: shared.Features{shared.FeatureNetworkNone}}, want: host.Report{Sandbox: "a", Engine: "bwrap", Decision: "denied", Rule: "feature-missing", End: host.End{Error: "network", Attribute: "network"}}},
		"by the engine":       {engine: &stubEngine{name: "bwrap", startErr: &shared.Error{Kind: shared.ErrUnsupported, Attribute: "limits.pids", Message: "it cannot", Hint: "another"}}, want: host.Report{Sandbox: "a", Engine: "bwrap", Decision: "sandboxed", Rule: "engine-isolates", End: host.End{Error: "it cannot", Attribute: "limits.pids", Hint: "another"}}},
		"outside":             {change: func(c *host.Cmd) { c.Dir = "/usr" }, want: host.Report{Sandbox: "a", Decision: "denied", Rule: "not-started", End: host.End{Error: `Dir: "/usr" is not in the workspace`, Attribute: "Dir"}}},
		"nobody approves":     {engine: brokenStub(), def: host.Definition{Fallback: host.FallbackApprove}, want: host.Report{Sandbox: "a", Engine: "bwrap", Decision: "denied", Rule: "approval-needed", End: host.End{Error: "no namespaces"}}},
		"not wanted any more": {ctx: cancelled, want: host.Report{Decision: "denied", Rule: "not-started", End: host.End{Error: context.Canceled.Error()}}},
		"its time is over":    {change: func(c *host.Cmd) { c.Timeout = 1 }, want: host.Report{Decision: "denied", Rule: "not-started", End: host.End{Outcome: "timed_out", Status: 124, Error: "before the command ran"}}},
		"not there": {engine: &stubEngine{name: "bwrap", startErr: &shared.Error{Kind: shared.ErrNotFound, Message: "not there"}},
			want: host.Report{Sandbox: "a", Engine: "bwrap", Decision: "sandboxed", Rule: "engine-isolates", End: host.End{Status: 127, Error: "not there"}}},
		"not executable": {engine: &stubEngine{name: "bwrap", startErr: &shared.Error{Kind: shared.ErrNotExecutable, Message: "a directory"}},
			want: host.Report{Sandbox: "a", Engine: "bwrap", Decision: "sandboxed", Rule: "engine-isolates", End: host.End{Status: 126, Error: "a directory"}}},
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
		logged := make(chan audit.Record, 2)
		cmd := s.host(t, tt.def, func(o *host.Options) {
			o.Record = recording(func(r audit.Record) error { logged <- r; return nil })
		}).Command(ctx, tt.sandbox, "true")
		if tt.change != nil {
			tt.change(cmd)
		}
		if err := cmd.Start(); err == nil {
			t.Errorf("%s: it runs", name)
		}
		got, want := cmd.Report(), tt.want
		if want.Outcome == "" {
			want.Outcome = "failed"
		}
		if want.Status == 0 {
			want.Status = 125
		}
		// On a busy machine it comes after Start has given up; another one may come before it.
		var decision audit.Record
		for decision.Decision != want.Decision || decision.Rule != want.Rule {
			decision = <-logged
		}
		if want.Decision == "sandboxed" {
			if end := <-logged; end.Outcome != want.Outcome || end.Status != want.Status {
				t.Errorf("%s: logged %+v", name, end)
			}
		}
		if got.Outcome != want.Outcome || got.Status != want.Status || got.Result != nil || want.Sandbox != "" && got.Sandbox != want.Sandbox || got.Decision != want.Decision || got.Attribute != want.Attribute || want.Hint != "" && got.Hint != want.Hint || got.Rule != want.Rule ||
			!strings.Contains(got.Error, want.Error) || want.Decision == "denied" && got.Reason == "" || want.Engine != "" && got.Engine != want.Engine {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// What "auto" is given of options is for each engine that it may choose, and docker's alone where that
// was declared; for a definition that gives it no image there is no docker.
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

	s = stubs{platform: &stubEngine{name: "bwrap"}, noop: noopStub()}
	h = s.host(t, host.Definition{Config: options}, nil)
	if err := h.Command(t.Context(), "", "true").Run(); err != nil || !slices.Equal(s.platform.options, []string{string(options)}) {
		t.Errorf("no docker is declared: %q, %v", s.platform.options, err)
	}
	s.platform = brokenStub()
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
			o.AuditLog = log
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

// What no command could run with is an error of New, by its attribute. A mistake in one definition is one of
// Check and of its own commands.
func TestOptionsAreValidated(t *testing.T) {
	t.Parallel()
	one := func(d host.Definition) host.Options {
		return host.Options{Sandboxes: map[string]host.Definition{"a": {}, "s": d}, Inject: map[string]shared.Engine{"stub": &stubEngine{name: "stub"}}}
	}
	for want, o := range map[string]host.Options{
		`sandbox "s": engine: there is no engine "bwarp"; the engines are `:                             one(host.Definition{Engine: "bwarp"}),
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
			defer h.Close()
			if err := h.Command(t.Context(), "a", "true").Start(); len(o.Sandboxes) == 2 && errors.Is(err, shared.ErrInvalidSpec) {
				t.Errorf("a command of another sandbox: %v", err)
			}
			if want != "" {
				if err = h.Check(t.Context(), "s"); fmt.Sprint(h.Command(t.Context(), "s", "true").Start()) != fmt.Sprint(err) {
					t.Errorf("Check gives %v, and Start another error", err)
				}
			}
		}
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v; want %s", err, want)
		}
	}
}

// A definition that New was not given is checked as the others are; commands of equal ones
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
		`: engine: there is no engine "bwarp"; the engines are `: {Engine: "bwarp"},
		`: limits.timeout: it is negative`:                       {Limits: host.Limits{Timeout: -1}},
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
		{some, host.Definition{Isolation: "full", Network: host.Network{Host: true}}, "isolation", ""},
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
			if what, ok := strings.CutSuffix(strings.Split(e.Message, ": engine")[0], " is not enforced"); ok {
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

// What noop does nothing for is told.
func TestNoopTellsWhatItDoesNotHold(t *testing.T) {
	t.Parallel()
	for _, def := range []host.Definition{{}, {Network: host.Network{Host: true}}, {Network: host.Network{Host: true}, DenyPaths: []string{"a"}}} {
		s := stubs{noop: noopStub()}
		told := def.DenyPaths != nil || !def.Network.Host
		def.Engine = "noop"
		cmd := s.host(t, def, nil).Command(t.Context(), "", "true")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		note := `network, read_only, deny_paths and protect_paths are not promised: engine "noop" claims no isolation`
		if got := cmd.Report().Degraded; slices.Contains(got, note) != told || len(got) > 1 {
			t.Errorf("%+v: told %q", def, got)
		}
	}
}
