package enginetest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/dial"
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
	Launch func(ctx context.Context) (*dial.Launched, error)
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
	// RuleTimeout ends a rule of the contract that hangs. Zero is two minutes.
	RuleTimeout time.Duration
}

// A Suite is an engine and the cases to try on it. Its methods are called one at a
// time; the engine stays the caller's.
type Suite struct {
	engine  shared.Engine
	info    shared.Info
	options Options

	unconfined bool
	dir        string
	inUse      *os.File // dir, locked
	actor      string
	home       string // the caller's; "" where there is none
	random     string
	victim     victim
}

// New prepares a suite. The program must have called [Hook] first in its main,
// and should call Close at the end. The errors say that Hook was not called, that
// the engine does not answer or does not work here (ErrUnavailable), or that there is
// nowhere to work.
func New(ctx context.Context, engine shared.Engine, options Options) (*Suite, error) {
	if !hooked.Load() {
		return nil, errors.New("enginetest: this program's main does not call enginetest.Hook (or enginetest.Main) first")
	}
	if options.RuleTimeout <= 0 {
		options.RuleTimeout = ruleTimeout
	}
	info, err := answered(ctx, "Info", engine.Info)
	if err != nil {
		return nil, err
	}
	probe, err := answered(ctx, "Probe", engine.Probe)
	if err != nil {
		return nil, err
	}
	if !probe.Ready {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: "engine", Message: fmt.Sprintf("%s does not work here: %s", info.Name, probe.Reason), Hint: probe.Fix}
	}
	s := &Suite{engine: engine, info: info, options: options, random: rand.Text()[:10],
		unconfined: info.Features.Has(shared.FeatureUnconfined)}
	if s.actor = options.Program; s.actor == "" {
		s.actor, err = os.Executable()
	}
	if err == nil {
		s.actor, err = filepath.EvalSymlinks(s.actor)
	}
	if err != nil {
		return nil, fmt.Errorf("enginetest: finding the program to run inside: %w", err)
	}
	s.home, _ = os.UserHomeDir()
	if s.dir, err = sceneDir(); err != nil {
		return nil, err
	}
	if s.inUse, err = os.Open(s.dir); err == nil {
		_ = syscall.Flock(int(s.inUse.Fd()), syscall.LOCK_SH) // what cannot be locked is kept for longer
	}
	return s, err
}

// answered calls an engine, which may never answer.
func answered[T any](ctx context.Context, call string, f func(context.Context) (T, error)) (answer T, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, attemptTimeout, fmt.Errorf("no answer within %v", attemptTimeout))
	defer cancel()
	failed, err := returned(ctx, func() (err error) {
		answer, err = f(ctx)
		return err
	})
	if failed != nil && ctx.Err() != nil {
		failed = context.Cause(ctx)
	}
	if err = cmp.Or(err, failed); err != nil {
		var none T
		return none, fmt.Errorf("enginetest: %s: %w", call, err)
	}
	return answer, nil
}

const (
	dirPrefix = "sbxhost-probe-"
	// staleAfter is older than any directory is when it is not locked yet.
	staleAfter = 10 * time.Minute
)

// sweep removes what runs of this user have left in a directory that were killed.
func sweep(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || !strings.HasPrefix(e.Name(), dirPrefix) || time.Since(info.ModTime()) < staleAfter {
			continue
		}
		dir := filepath.Join(base, e.Name())
		if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
			continue
		}
		if f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NOFOLLOW, 0); err == nil {
			if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
				removeTree(dir)
			}
			f.Close()
		}
	}
}

// sceneDir is not under /tmp if that can be: a sandbox with a private /tmp would
// then hold more than it does.
func sceneDir() (string, error) {
	var errs []error
	cache, err := os.UserCacheDir()
	if err == nil {
		err = os.MkdirAll(cache, 0o700)
	}
	sweep("/var/tmp") // where one probe has a directory in any case
	for _, base := range []string{cache, "/var/tmp", os.TempDir()} {
		if err != nil || base == "" {
			errs, err = append(errs, err), nil
			continue
		}
		sweep(base)
		dir, mkdirErr := os.MkdirTemp(base, dirPrefix)
		if mkdirErr == nil {
			return filepath.EvalSymlinks(dir)
		}
		errs = append(errs, mkdirErr)
	}
	return "", fmt.Errorf("enginetest: a directory to work in: %w", errors.Join(errs...))
}

// NeedsOptions gives the engine's complaint where it opens no sandbox without
// options of its own that [Options.EngineOptions] does not have, and nil elsewhere.
func (s *Suite) NeedsOptions(ctx context.Context) error {
	sc := s.layout(&probe{}, "options")
	defer sc.close()
	if err := sc.plant(); err != nil {
		return err
	}
	_, err := answered(ctx, "Open", func(ctx context.Context) (opened struct{}, err error) {
		sandbox, err := s.engine.Open(ctx, sc.newTrial().Spec)
		if err == nil {
			err = sandbox.Close(ctx)
		}
		return opened, err
	})
	if e, ok := errors.AsType[*shared.Error](err); ok && e.Kind == shared.ErrInvalidSpec && strings.HasPrefix(e.Attribute, "config.") {
		return e
	}
	return nil // for the cases to tell of
}

// Close removes what the suite has made. What a run leaves that is killed, a later one
// removes.
func (s *Suite) Close() error {
	if s.victim.child != nil {
		s.victim.child.End()
	}
	defer s.inUse.Close()
	return removeTree(s.dir)
}

// A testCase is one probe or one rule of the contract.
type testCase struct {
	Result // what of it is known beforehand
	// lacks are features that the engine does not claim and whose case can be tried.
	lacks string
	// alone says that no other case may run at the same time.
	alone bool
	run   func(ctx context.Context) (Status, string)
}

// cases are those that the options choose.
func (s *Suite) cases() []testCase {
	var list []testCase
	if !s.options.ContractOnly {
		for _, p := range allProbes() {
			// Without isolation, what is claimed all the same is tried: limits.
			if s.unconfined && !s.options.Unconfined && (!p.ofLimit() || missing(s.info.Features, p.features) != "") {
				continue
			}
			shows, feature := s.featuresOf(p)
			lacks := ""
			if !s.unconfined {
				lacks = missing(s.info.Features, shows)
			}
			list = append(list, testCase{Result{ID: p.id, Group: p.group, Feature: feature, Title: p.title}, lacks, false, func(ctx context.Context) (Status, string) { return s.runProbe(ctx, p) }})
		}
	}
	if !s.options.ProbesOnly {
		for _, r := range contractRules() {
			about := Result{ID: r.id, Group: groupContract, Title: r.title}
			if len(r.features) > 0 {
				about.Feature = r.features[0]
			}
			list = append(list, testCase{about, "", r.alone, func(ctx context.Context) (Status, string) { return s.runRule(ctx, &r) }})
		}
	}
	return slices.DeleteFunc(list, func(c testCase) bool { return s.options.Run != nil && !s.options.Run.MatchString(c.ID) })
}

func (s *Suite) runCase(ctx context.Context, c testCase) Result {
	begin := time.Now()
	r := c.Result
	r.Status, r.Detail = c.run(ctx)
	if c.lacks != "" && (r.Status == Held || r.Status.Bad()) {
		r.Detail = fmt.Sprintf("%s%s; found: %s: %s", notClaimed, c.lacks, r.Status, r.Detail)
		r.Status, r.Found = Skipped, r.Status
	}
	r.Millis = time.Since(begin).Milliseconds()
	return r
}

// Run tries everything that was chosen. Done, if not nil, is told of each result as
// it comes. The end of ctx ends the run; what was not run is not in the results.
func (s *Suite) Run(ctx context.Context, done func(Result)) Results {
	cases := s.cases()
	results := make([]*Result, len(cases))
	var group sync.WaitGroup
	var telling sync.Mutex
	one := func(i int) {
		if ctx.Err() != nil {
			return
		}
		r := s.runCase(ctx, cases[i])
		if ctx.Err() != nil {
			return
		}
		results[i] = &r
		if done != nil {
			telling.Lock()
			defer telling.Unlock()
			done(r)
		}
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
	all := Results{claims: s.info.Features, all: s.options.Run == nil && !s.options.ContractOnly}
	for _, r := range results {
		if r != nil {
			all.Results = append(all.Results, *r)
		}
	}
	return all
}
