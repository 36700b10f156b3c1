package enginetest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/internal/dial"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/contract"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/probes"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// Options choose what to run. The zero value runs everything, in about ten seconds.
type Options struct {
	// Run chooses cases by their ID; nil means all.
	Run *regexp.Regexp
	// ProbesOnly and ContractOnly leave out the other part.
	ProbesOnly, ContractOnly bool
	// Unconfined runs the probes on an engine that does not isolate, which shows their results
	// without isolation.
	Unconfined bool
	// Session runs each case in a session with a directory, which an engine may implement
	// differently.
	Session bool
	// Prepared sets Prepare in each Spec, and runs a command before each probe's own, so that the
	// probe runs in a prepared sandbox if the engine makes one.
	Prepared bool
	// StreamBytes is the length of each stream in the contract's test of large streams. Zero is 32
	// MiB.
	StreamBytes int64
	// Launch starts one more process of the engine, for the cases that kill one. Nil leaves them
	// out.
	Launch func(ctx context.Context) (*dial.Process, error)
	// EngineOptions are the engine's own options, as JSON, for each sandbox: for an engine that
	// requires some, such as an image.
	EngineOptions json.RawMessage
	// Name is the name that the engine must have. [RunBinary] takes it from a program's name,
	// sbxhost-engine-NAME.
	Name string
	// Program is the program that runs inside: the absolute path of one whose main calls [Hook].
	// Empty means this program, which must then be static or find its libraries in every sandbox.
	Program string
	// Brief makes cases with many commands start fewer, for engines that start commands slowly.
	Brief bool
	// Known maps IDs of cases that the engine fails on this machine to the reason. [Run] fails such
	// a case if it passes.
	Known map[string]string
	// CaseTimeout ends a case that hangs. Zero is 90 seconds, or five minutes with Brief.
	CaseTimeout time.Duration
}

// A Suite is an engine and its test cases. Call one method at a time; the caller owns the engine.
type Suite struct {
	kit     *scene.Kit
	options Options
}

// New prepares a suite. The program must have called [Hook] first in its main, and should call
// Close at the end. The errors are: nobody called Hook; the engine does not answer, or does not
// work here (ErrUnavailable); there is no directory to work in; or, without Options.Run, no command
// starts.
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
	if options.Run == nil {
		if err := startsOne(ctx, k); err != nil {
			k.Close()
			return nil, fmt.Errorf("enginetest: no command starts, so no case can show more than this error: %w", err)
		}
	}
	return &Suite{k, options}, nil
}

// startsOne runs an empty command in the usual sandbox.
func startsOne(ctx context.Context, k *scene.Kit) (refused error) {
	status, detail := k.InScene(ctx, scene.Place{AnyView: true, AnyNetwork: true}, "start", func(s *scene.Scene) {
		o := s.Attempt(s.Trying("nothing"))
		refused = o.Refused
		s.Must(errors.Join(o.Refused, o.Broke))
		s.Demand(o.Verdict.Kind != actor.Broken, "%s (%v) stderr: %s", o.Output(), o.Status, scene.Tail(o.Stderr))
	})
	if status.Bad() {
		return cmp.Or(refused, errors.New(detail))
	}
	return nil
}

// Close removes the suite's files. A later run removes those of a killed one.
func (s *Suite) Close() error { return s.kit.Close() }

// A testCase is one probe or one rule of the contract.
type testCase struct {
	Result // the fields that are known beforehand
	// lacks are features that the engine does not claim, though the kit can run the case.
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
			// Without isolation, test what is claimed nevertheless: limits.
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

// Run runs the chosen cases. tell, if not nil, is called when a case has ended, with how many have, and
// how many there are. When ctx ends, Run returns the results so far.
func (s *Suite) Run(ctx context.Context, tell func(done, of int)) Results {
	cases := s.cases()
	results := make([]Result, len(cases))
	var mu sync.Mutex
	done := 0
	one := func(i int) {
		r := s.runCase(ctx, cases[i])
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		results[i] = r
		if done++; tell != nil {
			tell(done, len(cases))
		}
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, 2*runtime.GOMAXPROCS(0))
	for i, c := range cases {
		if !c.alone && ctx.Err() == nil {
			slots <- struct{}{}
			group.Go(func() { one(i); <-slots })
		}
	}
	group.Wait()
	for i, c := range cases {
		if c.alone && ctx.Err() == nil {
			one(i)
		}
	}
	return Results{
		Results: slices.DeleteFunc(results, func(r Result) bool { return r.Status == "" }), // did not run
		claims:  s.kit.Info.Features, all: s.options.Run == nil && !s.options.ContractOnly,
	}
}
