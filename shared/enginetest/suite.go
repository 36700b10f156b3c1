package enginetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// actionTimeout ends an action that hangs.
const actionTimeout = 20 * time.Second

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
	// StreamBytes is how much goes through each stream in the contract's test of
	// large streams. Zero is 32 MiB.
	StreamBytes int64
	// Launch starts one more process of the engine, for the cases that kill one.
	// Without it they are left out.
	Launch func(ctx context.Context) (*shared.Launched, error)
	// RuleTimeout ends a rule of the contract that hangs. Zero is two minutes.
	RuleTimeout time.Duration
	// Parallel is how many cases run at once. Zero is twice the number of processors.
	Parallel int
}

// A Suite is an engine and the cases to try on it.
type Suite struct {
	engine  shared.Engine
	info    shared.Info
	options Options

	unconfined bool
	dir        string
	actor      string
	random     string
	victims    victims
}

// New prepares a suite. The program must have called [Hook] first in its main,
// and should call Close at the end.
func New(ctx context.Context, engine shared.Engine, options Options) (*Suite, error) {
	if !hooked.Load() {
		return nil, errors.New("enginetest: this program's main does not call enginetest.Hook (or enginetest.Main) first")
	}
	info, err := engine.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("enginetest: Info: %w", err)
	}
	probe, err := engine.Probe(ctx)
	if err != nil {
		return nil, fmt.Errorf("enginetest: Probe: %w", err)
	}
	if !probe.Ready {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: "engine", Message: fmt.Sprintf("%s does not work here: %s", info.Name, probe.Reason), Hint: probe.Fix}
	}
	if options.RuleTimeout <= 0 {
		options.RuleTimeout = ruleTimeout
	}
	s := &Suite{engine: engine, info: info, options: options, random: rand.Text()[:10],
		unconfined: info.Features.Has(shared.FeatureUnconfined)}
	if s.actor, err = os.Executable(); err == nil {
		s.actor, err = filepath.EvalSymlinks(s.actor)
	}
	if err != nil {
		return nil, fmt.Errorf("enginetest: finding this program: %w", err)
	}
	s.dir, err = sceneDir()
	return s, err
}

// sceneDir is not under /tmp if that can be: a sandbox with a private /tmp would
// then hold more than it does.
func sceneDir() (string, error) {
	var errs []error
	cache, err := os.UserCacheDir()
	if err == nil {
		err = os.MkdirAll(cache, 0o700)
	}
	for _, base := range []string{cache, "/var/tmp", os.TempDir()} {
		if err != nil || base == "" {
			errs, err = append(errs, err), nil
			continue
		}
		dir, mkdirErr := os.MkdirTemp(base, "sbxhost-probe-")
		if mkdirErr == nil {
			return filepath.EvalSymlinks(dir)
		}
		errs = append(errs, mkdirErr)
	}
	return "", fmt.Errorf("enginetest: a directory to work in: %w", errors.Join(errs...))
}

// Close removes what the suite has made.
func (s *Suite) Close() error {
	s.victims.end()
	return removeTree(s.dir)
}

// A testCase is one probe or one rule of the contract.
type testCase struct {
	id, title string
	group     Group
	run       func(ctx context.Context) (Status, string)
}

// cases are those that the options choose.
func (s *Suite) cases() []testCase {
	var list []testCase
	if !s.options.ContractOnly && (!s.unconfined || s.options.Unconfined) {
		for _, g := range probeGroups() {
			for _, p := range g.probes {
				list = append(list, testCase{p.id, p.title, g.group, func(ctx context.Context) (Status, string) { return s.runProbe(ctx, &p) }})
			}
		}
	}
	if !s.options.ProbesOnly {
		for _, r := range contractRules() {
			list = append(list, testCase{r.id, r.title, GroupContract, func(ctx context.Context) (Status, string) { return s.runRule(ctx, &r) }})
		}
	}
	if s.options.Run == nil {
		return list
	}
	kept := list[:0]
	for _, c := range list {
		if s.options.Run.MatchString(c.id) {
			kept = append(kept, c)
		}
	}
	return kept
}

func (s *Suite) runCase(ctx context.Context, c testCase) Result {
	begin := time.Now()
	status, detail := c.run(ctx)
	return Result{ID: c.id, Group: c.group, Title: c.title, Status: status, Detail: detail, Millis: time.Since(begin).Milliseconds()}
}

// Run tries everything that was chosen. Done, if not nil, is told of each result as
// it comes. The end of ctx ends the run; what was not run is not in the results.
func (s *Suite) Run(ctx context.Context, done func(Result)) Results {
	cases := s.cases()
	results := make([]*Result, len(cases))
	parallel := s.options.Parallel
	if parallel <= 0 {
		parallel = 2 * runtime.GOMAXPROCS(0)
	}
	var group sync.WaitGroup
	var telling sync.Mutex
	slots := make(chan struct{}, parallel)
	for i, c := range cases {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		group.Go(func() {
			defer func() { <-slots }()
			r := s.runCase(ctx, c)
			if ctx.Err() != nil {
				return
			}
			results[i] = &r
			if done != nil {
				telling.Lock()
				defer telling.Unlock()
				done(r)
			}
		})
	}
	group.Wait()
	var all Results
	for _, r := range results {
		if r != nil {
			all.Results = append(all.Results, *r)
		}
	}
	return all
}
