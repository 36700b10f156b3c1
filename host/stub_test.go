package host_test

import (
	"context"
	"encoding/json"
	"os"
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

// stubEngine runs nothing: its commands succeed at once, unless it does not
// work on this machine.
type stubEngine struct {
	name       string
	unconfined bool
	broken     string // why it does not work here
	unproven   bool   // it has not found that, it only failed
	startErr   error
	refusals   []error // what the first calls, of Open or Start, give
	lacks      shared.Features
	opening    func() // called by Open, if set
	starting   func() // likewise by Start

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
	if e.opening != nil {
		e.opening()
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
		return nil, &shared.Error{Kind: shared.ErrUnsupported, Attribute: "tty", Message: "takes no terminal"}
	}
	if s.starting != nil {
		s.starting()
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

func (stubProcess) Signal(context.Context, syscall.Signal) error { return os.ErrProcessDone }

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

// recording is an Options.Record that decodes the lines.
func recording(record func(audit.Record) error) func([]byte) error {
	return func(line []byte) error {
		var r audit.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		return record(r)
	}
}
