package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/shared"
)

// fakeEngine isolates nothing and runs nothing: it notes what it is asked and
// ends each command as it is told.
type fakeEngine struct {
	name     string // empty: bwrap
	features shared.Features
	openErr  error
	startErr error
	result   shared.Result
	waitErr  error
	events   []shared.Event
	broken   bool          // by its probe, and by every start
	runs     chan struct{} // if set, the command runs until a signal comes
	starting func(context.Context) error
	signal   func(*fakeProcess) error // if set, what a signal does

	mu      sync.Mutex
	specs   []shared.Spec
	command shared.Command
	signals []syscall.Signal
}

func (f *fakeEngine) Info(context.Context) (shared.Info, error) {
	features := f.features
	if features == nil {
		features = shared.Features{
			shared.FeatureNetworkNone, shared.FeatureNetworkHost, shared.FeatureFilesystemMinimal, shared.FeatureFilesystemHost,
			shared.FeatureRemap, shared.FeatureTTY, shared.FeatureUser,
			shared.FeatureNested, shared.FeatureHomePrivate, shared.FeatureTempPrivate, shared.FeatureProcessesHidden, shared.FeatureKernelFiltered, shared.FeatureMetadata,
		}
	}
	return shared.Info{Name: cmp.Or(f.name, "bwrap"), Version: "0", Doc: "fake", Features: features, Options: shared.OptionSchema{
		Attributes: []shared.OptionAttribute{{Name: "path", Type: shared.OptionString, Doc: "where it is"}},
	}}, nil
}

func (f *fakeEngine) Probe(context.Context) (shared.Probe, error) {
	if f.broken {
		return shared.Probe{Reason: "it is fake", Fix: "use a real one", Unusable: true}, nil
	}
	return shared.Probe{Ready: true}, nil
}

func (f *fakeEngine) Open(_ context.Context, spec shared.Spec) (shared.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.specs = append(f.specs, spec)
	return fakeSandbox{f}, f.openErr
}

type fakeSandbox struct{ *fakeEngine }

func (s fakeSandbox) Close(context.Context) error { return nil }

func (s fakeSandbox) Plan(_ context.Context, cmd shared.Command) (shared.Plan, error) {
	return shared.Plan{
		Argv:  []string{"fake", "--", cmd.Dir},
		Notes: []string{"it is fake"},
	}, nil
}

func (s fakeSandbox) Start(ctx context.Context, cmd shared.Command, _ shared.Stdio) (shared.Process, error) {
	if s.starting != nil {
		if err := s.starting(ctx); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.command = cmd
	if s.broken {
		return nil, &shared.Error{Kind: shared.ErrUnusable, Message: "it is fake", Hint: "use a real one"}
	}
	if s.startErr != nil {
		return nil, s.startErr
	}
	p := &fakeProcess{fakeEngine: s.fakeEngine, ended: make(chan struct{}), events: make(chan shared.Event, len(s.fakeEngine.events))}
	for _, e := range s.fakeEngine.events {
		p.events <- e
	}
	close(p.events)
	if s.runs == nil {
		close(p.ended)
	} else {
		close(s.runs)
	}
	return p, nil
}

type fakeProcess struct {
	*fakeEngine
	once   sync.Once
	ended  chan struct{}
	events chan shared.Event
}

func (p *fakeProcess) Wait(context.Context) (shared.Result, error) {
	<-p.ended
	return p.result, p.waitErr
}

func (p *fakeProcess) Signal(_ context.Context, sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signals = append(p.signals, sig)
	if p.signal != nil {
		return p.signal(p)
	}
	if p.runs != nil {
		p.once.Do(func() { close(p.ended) })
	}
	return nil
}

func (p *fakeProcess) Events() <-chan shared.Event { return p.events }

// output is a stream that several goroutines write to, as they do to files.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) Bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.buf.Bytes())
}

func (o *output) String() string { return string(o.Bytes()) }

func (o *output) Len() int { return len(o.Bytes()) }

func (o *output) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Reset()
}

// testApp is an app on a workspace of its own with the text as configuration,
// at the path that is returned. Nothing of it is found by itself.
func testApp(t *testing.T, engine *fakeEngine, config string) (a *cli.App, out, errs *output, path string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work, home := filepath.Join(dir, "work"), filepath.Join(dir, "home")
	if err := errors.Join(os.Mkdir(work, 0o755), os.Mkdir(home, 0o755)); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "sandbox.hcl")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	out, errs = &output{}, &output{}
	a = &cli.App{
		Stdin: strings.NewReader(""), Stdout: out, Stderr: errs,
		Caller: inforce.Caller{Dir: work, Environ: []string{"PATH=/usr/bin:/bin", "HOME=" + home}},
	}
	if engine != nil {
		a.Inject = map[string]shared.Engine{"bwrap": engine}
	}
	return a, out, errs, path
}

const fastConfig = `sandbox "fast" {
  engine = "bwrap"
}
`

func ended(code int) shared.Result {
	return shared.Result{Status: shared.ExitStatus{Code: code}, Duration: 5 * time.Millisecond}
}
