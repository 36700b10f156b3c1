package enginetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/paths"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/actor"
)

const (
	// obeyPatience is how long what calls an engine may go on when its context has ended.
	obeyPatience = 5 * time.Second
	// outlivePatience is how long the outputs of a command may stay open after
	// it is gone before something is taken to have outlived it.
	outlivePatience = 10 * time.Second
)

// A scene is what one case is tried with: a directory tree of its own on the host, and
// the engine. Its methods end the case where something is not as it must be, as those of
// a *testing.T do.
type scene struct {
	suite  *Suite
	p      *probe
	ctx    context.Context
	limit  time.Duration // of the whole case
	engine shared.Engine

	dir     string // holds all that follows
	ws      string // the workspace: shown, writable
	outside string // never shown unless granted
	shown   string // shown read-only where a probe says so
	session string // the session's directory, if there is one
	// canary is a text that occurs nowhere but in this scene's secrets.
	canary string

	foreign   *os.File          // a terminal of nobody, where a probe has one
	inherited *os.File          // a descriptor that is open in every child of this process
	values    map[string]string // what prepare has to tell the trial

	mu       sync.Mutex // a case that does not end may go on while its scene is closed
	faults   []string
	cleanups []func()
}

// An ending is thrown to end a case.
type ending struct {
	status Status
	detail string
}

// absentError says that a machine lacks what a case is about.
type absentError struct{ why string }

func (e *absentError) Error() string { return e.why }

func (s *scene) end(status Status, format string, args ...any) {
	panic(&ending{status, fmt.Sprintf(format, args...)})
}

func (s *scene) failf(format string, args ...any) { s.end(Failed, format, args...) }

// must ends the case by an error.
func (s *scene) must(err error) {
	if absent, ok := errors.AsType[*absentError](err); ok {
		s.end(NotApplicable, "%s", absent.why)
	}
	if err != nil {
		s.failf("%v", err)
	}
}

// wants ends the case unless an error is of one of the kinds.
func (s *scene) wants(what string, err error, kinds ...error) {
	if !slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) }) {
		s.failf("%s: got %v, want %v", what, err, kinds)
	}
}

// caught carries out f until something ends it.
func caught(f func()) (e *ending) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *ending:
			e = v
		default:
			panic(v)
		}
	}()
	f()
	return nil
}

// check tries one of the things that a case demands. The case goes on, and fails in the end.
func (s *scene) check(what any, f func()) {
	if e := caught(f); e != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.faults = append(s.faults, fmt.Sprintf("%v: %s", what, e.detail))
	}
}

// together checks n things at once.
func (s *scene) together(n int, f func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { s.check(i, func() { f(i) }) })
	}
	group.Wait()
}

// returned gives what f does. An engine that ignores contexts cannot hang the kit: f is
// left to itself soon after ctx has ended.
func returned[T any](ctx context.Context, f func() T) (value T, err error) {
	done := make(chan T, 1)
	go func() { done <- f() }()
	select {
	case value = <-done:
		return value, nil
	case <-ctx.Done():
	}
	select {
	case value = <-done:
		return value, nil
	case <-time.After(obeyPatience):
		return value, fmt.Errorf("it does not end: %w", context.Cause(ctx))
	}
}

// inScene carries out a case in a scene of that name.
func (s *Suite) inScene(given context.Context, p *probe, name string, limit time.Duration, f func(*scene)) (Status, string) {
	ctx, cancel := context.WithTimeout(given, limit)
	defer cancel()
	sc := s.layout(p, name)
	sc.ctx, sc.limit = ctx, limit
	e, err := returned(ctx, func() *ending {
		return caught(func() {
			sc.must(sc.plant())
			f(sc)
			if len(sc.faults) > 0 {
				sc.failf("%s", strings.Join(sc.faults, "\n"))
			}
		})
	})
	switch {
	case err != nil:
		e = &ending{Failed, err.Error()}
	case e == nil:
		e = &ending{Held, ""}
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(given), limit)
	defer cancel()
	if closeErr, err := returned(closing, sc.close); !e.status.Bad() && cmp.Or(err, closeErr) != nil {
		e = &ending{Failed, "cleaning up: " + cmp.Or(err, closeErr).Error()}
	}
	return e.status, e.detail
}

// layout says where the parts of a scene lie.
func (s *Suite) layout(p *probe, name string) *scene {
	sc := &scene{suite: s, p: p, engine: s.engine, dir: filepath.Join(s.dir, name), values: map[string]string{}}
	sc.ws, sc.outside, sc.shown = sc.path("ws"), sc.path("outside"), sc.path("shown")
	sc.canary = "canary-" + name + "-" + s.random
	if s.options.Session {
		// Apart, since the engine's own work in it is nobody's business.
		sc.session = filepath.Join(s.dir, "sessions", name)
	}
	return sc
}

// plant makes what most probes use, and what this one does.
func (s *scene) plant() error {
	for name, text := range map[string]string{
		"ws/file": "a file\n", "ws/sub/deep/file": "a deep file\n", "ws/.env": s.canary, "ws/keys/key": s.canary,
		"ws/dir/sub/secret": s.canary, "shown/file": "shown\n", "shown/sub/file": "shown\n", "outside/secret": s.canary,
	} {
		if err := s.write(name, text); err != nil {
			return err
		}
	}
	if s.session != "" {
		if err := os.MkdirAll(s.session, 0o700); err != nil {
			return err
		}
	}
	if s.p.prepare != nil {
		return s.p.prepare(s)
	}
	return nil
}

// path is below the scene's directory.
func (s *scene) path(elements ...string) string {
	return filepath.Join(append([]string{s.dir}, elements...)...)
}

// fill puts the scene's own in the place of {ws} and the like.
func (s *scene) fill(texts ...string) (filled []string) {
	pairs := []string{"{dir}", s.dir, "{ws}", s.ws, "{outside}", s.outside, "{shown}", s.shown, "{canary}", s.canary,
		"{kit}", s.suite.actor, "{home}", s.suite.home, "{unique}", s.suite.random + s.p.id}
	for name, value := range s.values {
		pairs = append(pairs, "{"+name+"}", value)
	}
	r := strings.NewReplacer(pairs...)
	for _, text := range texts {
		filled = append(filled, r.Replace(text))
	}
	return filled
}

func (s *scene) write(name, text string) error {
	path := s.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// cleanup is called in reverse order when the case is done.
func (s *scene) cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

func (s *scene) close() error {
	s.mu.Lock()
	cleanups := s.cleanups
	s.cleanups = nil
	s.mu.Unlock()
	for _, f := range slices.Backward(cleanups) {
		f()
	}
	return removeTree(s.dir)
}

// removeTree is os.RemoveAll for what commands may have made unreadable.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, os.ErrPermission) {
		return err
	}
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// patience is how long one step may take.
func (s *scene) patience() time.Duration { return min(actor.Timeout, s.limit/3) }

// many is how many commands a case starts.
func (s *scene) many(n, brief int) int {
	if s.suite.options.Brief {
		return brief
	}
	return n
}

// pipe gives a pair that is closed at the end.
func (s *scene) pipe() (r, w *os.File) {
	r, w, err := os.Pipe()
	s.must(err)
	s.cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// feed has text written to a command's input, and the input closed; the function that it
// gives waits for that.
func (s *scene) feed(w *os.File, text io.Reader) (fed func()) {
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, text)
		done <- errors.Join(err, w.Close())
	}()
	return func() { s.must(<-done) }
}

// A trial is one command in the making, and its sandbox.
type trial struct {
	Spec    shared.Spec
	Command shared.Command
	stdin   *os.File
	// act is what the kit's own program does inside; nil runs the Command as it is.
	act []string
	// first are actions of earlier commands in the same sandbox.
	first [][]string
	tty   bool
	// script has a shell begin what the kit's program does.
	script bool
	// during is called when the command has started or, if awaited, when its
	// action has told how it went.
	during  func(shared.Process)
	awaited bool
}

// newTrial is the sandbox that every case starts from.
func (s *scene) newTrial() *trial {
	t := &trial{Spec: shared.Spec{
		Sandbox:    "probe",
		Unconfined: s.suite.unconfined,
		Options:    slices.Clone(s.suite.options.EngineOptions),
		Prepare:    s.suite.options.Prepared,
		Table: []shared.Entry{
			{Source: s.ws, Path: s.ws, Access: shared.ReadWrite, Why: "workspace"},
			{Source: s.suite.actor, Path: s.suite.actor, Why: "bind_paths[0]", Access: shared.ReadOnly},
		},
	}}
	if s.session != "" {
		t.Spec.Session = shared.Session{ID: s.canary, Dir: s.session}
	}
	claims := s.suite.info.Features
	if s.p.anyNetwork && !claims.Has(shared.FeatureNetworkNone) && claims.Has(shared.FeatureNetworkHost) {
		t.Spec.Network.Mode = shared.NetworkHost
	}
	if s.p.anyView && !claims.Has(shared.FeatureFilesystemMinimal) && claims.Has(shared.FeatureFilesystemHost) {
		t.Spec.Filesystem = shared.FilesystemHost
	}
	// Where an engine claims a part, the probes of that part are tried.
	t.Spec.BestEffort = s.engine != nil && !s.suite.unconfined && shared.Refused("", t.Spec.Without(claims)) != nil
	t.Command.Dir = s.ws
	t.Command.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	t.Command.Timeout = actor.Timeout
	return t
}

// trying is such a trial of an action.
func (s *scene) trying(action string, args ...string) *trial {
	t := s.newTrial()
	t.do(action, args...)
	return t
}

// do sets the action.
func (t *trial) do(action string, args ...string) { t.act = append([]string{action}, args...) }

// add adds an entry to the table.
func (t *trial) add(e shared.Entry) {
	if e.Why == "" {
		e.Why = "bind_paths[1]"
	}
	t.Spec.Table = append(t.Spec.Table, e)
}

// show adds a mount at the same path inside.
func (t *trial) show(path string, kind shared.Access) {
	t.add(shared.Entry{Source: path, Path: path, Access: kind})
}

// hide adds an entry that hides a path, if it is there.
func (t *trial) hide(path string) {
	t.add(shared.Entry{Path: path, Access: shared.Hidden, Missing: shared.MissingIgnore, Why: `deny_paths "probe"`})
}

// sorted is the Spec as a host gives it.
func (t *trial) sorted() shared.Spec {
	spec := t.Spec
	spec.Table = slices.SortedFunc(slices.Values(spec.Table), func(a, b shared.Entry) int { return paths.Compare(a.Path, b.Path) })
	return spec
}

// setenv adds a variable.
func (t *trial) setenv(name, value string) {
	t.Command.Env = append(t.Command.Env, name+"="+value)
}

// requires is what the engine must claim for the trial to be made.
func (p *probe) requires(t *trial) []shared.Feature {
	var list []shared.Feature
	spec := t.Spec
	spec.BestEffort = true
	if spec.Unconfined {
		if slices.ContainsFunc(spec.Table, func(e shared.Entry) bool { return e.Access == shared.Hidden }) {
			list = append(list, shared.FeatureHidden)
		}
	} else {
		for _, l := range spec.Without(nil) {
			if !l.Accepted {
				list = append(list, l.Feature)
			}
		}
	}
	list = append(list, p.features...)
	if t.tty {
		list = append(list, shared.FeatureTTY)
	}
	return list
}

// missing is what of a list an engine does not claim.
func missing(have shared.Features, want []shared.Feature) string {
	var lacking []shared.Feature
	for _, f := range want {
		if !have.Has(claimable(have, f)) && !slices.Contains(lacking, f) {
			lacking = append(lacking, f)
		}
	}
	return joined(lacking)
}

// claimable is the feature by which an engine would hold f: a list of names also by a proxy.
func claimable(have shared.Features, f shared.Feature) shared.Feature {
	if f == shared.FeatureNetworkNames && !have.Has(f) && have.Has(shared.FeatureNetworkProxy) {
		return shared.FeatureNetworkProxy
	}
	return f
}

func joined(list []shared.Feature) string {
	var texts []string
	for _, f := range list {
		texts = append(texts, string(f))
	}
	return strings.Join(texts, ", ")
}
