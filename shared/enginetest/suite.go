package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/internal/dial"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/contract"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/probes"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// Options choose what is run. The zero value runs everything, in about ten
// seconds.
type Options struct {
	// Run chooses cases by their ID; nil is all.
	Run *regexp.Regexp
	// ProbesOnly and ContractOnly leave out the other part.
	ProbesOnly, ContractOnly bool
	// Unconfined runs the probes on an engine that does not isolate, which
	// shows what they find without isolation.
	Unconfined bool
	// Session runs everything in sessions that have a directory, one for each
	// case, where an engine may work in another way.
	Session bool
	// Prepared sets Prepare in each Spec, and runs a command before each probe's own, so that
	// the probe runs in a sandbox that was made beforehand where the engine makes one.
	Prepared bool
	// StreamBytes is how much goes through each stream in the contract's test of
	// large streams. Zero is 32 MiB.
	StreamBytes int64
	// Launch starts one more process of the engine, for the cases that kill one.
	// Without it they are left out.
	Launch func(ctx context.Context) (*dial.Process, error)
	// EngineOptions are the engine's own, as JSON, of each sandbox that is opened: for
	// an engine that cannot do without, such as one that needs an image.
	EngineOptions json.RawMessage
	// Name is what the engine must call itself. [RunBinary] takes it from a program's name,
	// sbxhost-engine-NAME.
	Name string
	// Program is what runs inside: an absolute path of a program whose main calls
	// [Hook]. Empty is this program itself, which must then be linked statically or
	// find its libraries in every sandbox.
	Program string
	// Brief has the rules that start many commands start fewer: for engines that
	// need long to start one.
	Brief bool
	// Known are cases, by ID, that the engine is known to fail on this machine,
	// and why. [Run] fails those of them that it does not.
	Known map[string]string
	// CaseTimeout ends a case that hangs. Zero is 90 seconds, or five minutes with Brief.
	CaseTimeout time.Duration
}

// A Suite is an engine and the cases to try on it. Its methods are called one at a
// time; the engine stays the caller's.
type Suite struct {
	kit     *scene.Kit
	options Options
}

// New prepares a suite. The program must have called [Hook] first in its main,
// and should call Close at the end. The errors say that Hook was not called, that
// the engine does not answer or does not work here (ErrUnavailable), that there is
// nowhere to work, or, without Options.Run, that no command starts.
func New(ctx context.Context, engine shared.Engine, options Options) (*Suite, error) {
	if !hooked.Load() {
		return nil, errors.New("enginetest: this program's main does not call enginetest.Hook (or enginetest.Main) first")
	}
	k := &scene.Kit{
		Engine: engine, Session: options.Session, Prepared: options.Prepared, Brief: options.Brief,
		EngineOptions: options.EngineOptions, Program: options.Program, Name: options.Name, Launch: options.Launch,
		StreamBytes: options.StreamBytes, CaseTimeout: max(options.CaseTimeout, 0),
	}
	var err error
	if k.Info, err = scene.Answered(ctx, k, "Info", engine.Info); err != nil {
		return nil, err
	}
	ready, err := scene.Answered(ctx, k, "Probe", engine.Probe)
	if err != nil {
		return nil, err
	}
	if !ready.Ready {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: "engine", Message: fmt.Sprintf("%s does not work here: %s", k.Info.Name, ready.Reason), Hint: ready.Fix}
	}
	if err := k.Settle(); err != nil {
		return nil, fmt.Errorf("enginetest: %w", err)
	}
	if options.Run != nil {
		return &Suite{k, options}, nil
	}
	if err := startsOne(ctx, k); err != nil {
		k.Close()
		return nil, fmt.Errorf("enginetest: no command starts, and no case can tell more than this one: %w", err)
	}
	return &Suite{k, options}, nil
}

// startsOne runs a command that does nothing in the usual sandbox. An engine that needs options is
// not asked to.
func startsOne(ctx context.Context, k *scene.Kit) error {
	status, detail := k.InScene(ctx, scene.Place{AnyView: true, AnyNetwork: true}, "start", func(s *scene.Scene) {
		o := s.Attempt(s.Trying("nothing"))
		if needsOptions(o.Refused) == nil {
			s.Must(errors.Join(o.Refused, o.Broke))
			if o.Verdict.Kind == actor.Broken {
				s.Failf("%s (%v) stderr: %s", o.Output(), o.Status, scene.Tail(o.Stderr))
			}
		}
	})
	if status.Bad() {
		return errors.New(detail)
	}
	return nil
}

// NeedsOptions gives the engine's complaint where it opens no sandbox without
// options of its own that [Options.EngineOptions] does not have, and nil elsewhere.
func (s *Suite) NeedsOptions(ctx context.Context) error {
	sc := s.kit.Layout(scene.Place{}, "options")
	defer sc.Close()
	if err := sc.Plant(); err != nil {
		return err
	}
	_, err := scene.Answered(ctx, s.kit, "Open", func(ctx context.Context) (none struct{}, err error) {
		sandbox, err := s.kit.Engine.Open(ctx, sc.NewTrial().Spec)
		if err == nil {
			err = sandbox.Close(ctx)
		}
		return none, err
	})
	return needsOptions(err) // all else is for the cases to tell of
}

func needsOptions(err error) error {
	if e, ok := errors.AsType[*shared.Error](err); ok && e.Kind == shared.ErrInvalidSpec && strings.HasPrefix(e.Attribute, "config.") {
		return e
	}
	return nil
}

// Close removes what the suite has made. What a run leaves that is killed, a later one
// removes.
func (s *Suite) Close() error { return s.kit.Close() }

// A testCase is one probe or one rule of the contract.
type testCase struct {
	Result // what of it is known beforehand
	// lacks are features that the engine does not claim and whose case can be tried.
	lacks string
	// alone says that no other case may run at the same time.
	alone bool
	run   func(ctx context.Context) (scene.Status, string)
}

// cases are those that the options choose.
func (s *Suite) cases() []testCase {
	var list []testCase
	if !s.options.ContractOnly {
		for _, p := range probes.All() {
			// Without isolation, what is claimed all the same is tried: limits.
			if s.kit.Unconfined() && !s.options.Unconfined && (!p.OfLimit() || scene.Missing(s.kit.Info.Features, p.Features) != "") {
				continue
			}
			shows, feature := p.FeaturesOf(s.kit)
			lacks := ""
			if !s.kit.Unconfined() {
				lacks = scene.Missing(s.kit.Info.Features, shows)
			}
			list = append(list, testCase{Result{ID: p.ID, Group: Group(p.Group), Feature: feature, Title: p.Title}, lacks, false, func(ctx context.Context) (scene.Status, string) { return p.Run(ctx, s.kit) }})
		}
	}
	if !s.options.ProbesOnly {
		for _, r := range contract.Rules() {
			about := Result{ID: r.ID, Group: groupContract, Title: r.Title}
			if len(r.Features) > 0 {
				about.Feature = r.Features[0]
			}
			list = append(list, testCase{about, "", r.Alone, func(ctx context.Context) (scene.Status, string) { return r.Try(ctx, s.kit) }})
		}
	}
	return slices.DeleteFunc(list, func(c testCase) bool { return s.options.Run != nil && !s.options.Run.MatchString(c.ID) })
}

func (s *Suite) runCase(ctx context.Context, c testCase) Result {
	begin := time.Now()
	r := c.Result
	status, detail := c.run(ctx)
	r.Status, r.Detail = Status(status), detail
	if c.lacks != "" && (r.Status == Held || r.Status.Bad()) {
		r.Detail = fmt.Sprintf("%s%s; found: %s: %s", scene.NotClaimed, c.lacks, r.Status, r.Detail)
		r.Status, r.Found = Skipped, r.Status
	}
	r.Millis = time.Since(begin).Milliseconds()
	return r
}

// Progress is how far a run is.
type Progress struct {
	Done int // cases that have ended
	Of   int // cases in all
	// Slowest has run for longest, since Since, of the cases that run now; empty is none.
	Slowest string
	Since   time.Time
}

// Run tries everything that was chosen. Tell, if not nil, is called when a case begins or has
// ended, and every second. The end of ctx ends the run; what was not run is not in the results.
func (s *Suite) Run(ctx context.Context, tell func(Progress)) Results {
	cases := s.cases()
	results := make([]Result, len(cases))
	var group sync.WaitGroup
	var mu sync.Mutex
	done, running := 0, map[string]time.Time{}
	step := func(f func()) {
		mu.Lock()
		defer mu.Unlock()
		f()
		if tell == nil {
			return
		}
		p := Progress{Done: done, Of: len(cases)}
		for id, since := range running {
			if p.Slowest == "" || since.Before(p.Since) {
				p.Slowest, p.Since = id, since
			}
		}
		tell(p)
	}
	if tell != nil {
		second, over := time.NewTicker(time.Second), make(chan struct{})
		var ticking sync.WaitGroup
		ticking.Go(func() {
			for {
				select {
				case <-second.C:
					step(func() {})
				case <-over:
					return
				}
			}
		})
		defer func() { second.Stop(); close(over); ticking.Wait() }()
	}
	one := func(i int) {
		if ctx.Err() != nil {
			return
		}
		id := cases[i].ID
		step(func() { running[id] = time.Now() })
		r := s.runCase(ctx, cases[i])
		step(func() {
			delete(running, id)
			if done++; ctx.Err() == nil {
				results[i] = r
			}
		})
	}
	slots := make(chan struct{}, 2*runtime.GOMAXPROCS(0))
	for i, c := range cases {
		if c.alone {
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			one(i)
		})
	}
	group.Wait()
	for i, c := range cases {
		if c.alone {
			one(i)
		}
	}
	return Results{
		Results: slices.DeleteFunc(results, func(r Result) bool { return r.Status == "" }), // not run
		claims:  s.kit.Info.Features, all: s.options.Run == nil && !s.options.ContractOnly,
	}
}
