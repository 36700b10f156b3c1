package scene

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/paths"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
)

const (
	// obeyPatience is how long what calls an engine may go on when its context has ended.
	obeyPatience = 5 * time.Second
	// outlivePatience is how long the outputs of a command may stay open after
	// it is gone before something is taken to have outlived it.
	outlivePatience = 10 * time.Second
)

// A place says what a scene is for.
type Place struct {
	ID string // of the probe or rule
	// AnyView and anyNetwork say that it is not about the files that the view shows, or not about the
	// network, so that it is tried in what an engine claims that does not hold the minimal view, or
	// no network.
	AnyView, AnyNetwork bool
	// Prepare plants what it is about, outside of the sandbox; nil is nothing.
	Prepare func(s *Scene) error
}

// A scene is what one case is tried with: a directory tree of its own on the host, and
// the engine. Its methods end the case where something is not as it must be, as those of
// a *testing.T do.
type Scene struct {
	Kit    *Kit
	place  Place
	Ctx    context.Context
	Limit  time.Duration // of the whole case
	Engine shared.Engine

	Dir     string // holds all that follows
	WS      string // the workspace: shown, writable
	Outside string // never shown unless granted
	Shown   string // shown read-only where a probe says so
	session string // the session's directory, if there is one
	// Canary is a text that occurs nowhere but in this scene's secrets.
	Canary string

	Foreign   *os.File          // a terminal of nobody, where a probe has one
	Inherited *os.File          // a descriptor that is open in every child of this process
	Values    map[string]string // what prepare has to tell the trial

	mu       sync.Mutex // a case that does not end may go on while its scene is closed
	faults   []string
	cleanups []func()
}

// Status is how a case went. See enginetest.Status.
type Status string

const (
	Held          Status = "held"
	Leaked        Status = "leaked"
	Failed        Status = "failed"
	ControlFailed Status = "control-failed"
	Skipped       Status = "skipped"
	NotApplicable Status = "not-applicable"
)

// Bad says whether the engine, or the kit on this machine, has failed.
func (s Status) Bad() bool { return s == Leaked || s == Failed || s == ControlFailed }

// An ending is thrown to end a case.
type ending struct {
	status Status
	detail string
}

// AbsentError says that a machine lacks what a case is about.
type AbsentError string

func (e AbsentError) Error() string { return string(e) }

func (s *Scene) End(status Status, format string, args ...any) {
	panic(&ending{status, fmt.Sprintf(format, args...)})
}

func (s *Scene) Failf(format string, args ...any) { s.End(Failed, format, args...) }

// Must ends the case by an error.
func (s *Scene) Must(err error) {
	if absent, ok := errors.AsType[AbsentError](err); ok {
		s.End(NotApplicable, "%s", absent)
	}
	if err != nil {
		s.Failf("%v", err)
	}
}

// Wants ends the case unless an error is of one of the kinds.
func (s *Scene) Wants(what string, err error, kinds ...error) {
	if !slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) }) {
		s.Failf("%s: got %v, want %v", what, err, kinds)
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

// Check tries one of the things that a case demands. The case goes on, and fails in the end.
func (s *Scene) Check(what any, f func()) {
	if e := caught(f); e != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.faults = append(s.faults, fmt.Sprintf("%v: %s", what, e.detail))
	}
}

// Together checks n things at once.
func (s *Scene) Together(n int, f func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { s.Check(i, func() { f(i) }) })
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

// InScene carries out a case in a scene of that name.
func (k *Kit) InScene(given context.Context, p Place, name string, limit time.Duration, f func(*Scene)) (Status, string) {
	ctx, cancel := context.WithTimeout(given, limit)
	defer cancel()
	sc := k.Layout(p, name)
	sc.Ctx, sc.Limit = ctx, limit
	e, err := returned(ctx, func() *ending {
		return caught(func() {
			sc.Must(sc.Plant())
			f(sc)
			if len(sc.faults) > 0 {
				sc.Failf("%s", strings.Join(sc.faults, "\n"))
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
	if closeErr, err := returned(closing, sc.Close); !e.status.Bad() && cmp.Or(err, closeErr) != nil {
		e = &ending{Failed, "cleaning up: " + cmp.Or(err, closeErr).Error()}
	}
	return e.status, e.detail
}

// Layout says where the parts of a scene lie.
func (k *Kit) Layout(p Place, name string) *Scene {
	sc := &Scene{Kit: k, place: p, Engine: k.Engine, Dir: filepath.Join(k.Dir, name), Values: map[string]string{}}
	sc.WS, sc.Outside, sc.Shown = sc.Path("ws"), sc.Path("outside"), sc.Path("shown")
	sc.Canary = "canary-" + name + "-" + k.Random
	if k.Session {
		// Apart, since the engine's own work in it is nobody's business.
		sc.session = filepath.Join(k.Dir, "sessions", name)
	}
	return sc
}

// Plant makes what most probes use, and what this one does.
func (s *Scene) Plant() error {
	for name, text := range map[string]string{
		"ws/file": "a file\n", "ws/sub/deep/file": "a deep file\n", "ws/.env": s.Canary, "ws/keys/key": s.Canary,
		"ws/dir/sub/secret": s.Canary, "shown/file": "shown\n", "shown/sub/file": "shown\n", "outside/secret": s.Canary,
	} {
		if err := s.Write(name, text); err != nil {
			return err
		}
	}
	if s.session != "" {
		if err := os.MkdirAll(s.session, 0o700); err != nil {
			return err
		}
	}
	if s.place.Prepare != nil {
		return s.place.Prepare(s)
	}
	return nil
}

// Path is below the scene's directory.
func (s *Scene) Path(elements ...string) string {
	return filepath.Join(append([]string{s.Dir}, elements...)...)
}

// Fill puts the scene's own in the place of {ws} and the like.
func (s *Scene) Fill(texts ...string) (filled []string) {
	pairs := []string{"{dir}", s.Dir, "{ws}", s.WS, "{outside}", s.Outside, "{shown}", s.Shown, "{canary}", s.Canary,
		"{kit}", s.Kit.Program, "{home}", s.Kit.Home, "{unique}", s.Kit.Random + s.place.ID}
	for name, value := range s.Values {
		pairs = append(pairs, "{"+name+"}", value)
	}
	r := strings.NewReplacer(pairs...)
	for _, text := range texts {
		filled = append(filled, r.Replace(text))
	}
	return filled
}

func (s *Scene) Write(name, text string) error {
	path := s.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// Cleanup is called in reverse order when the case is done.
func (s *Scene) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

func (s *Scene) Close() error {
	s.mu.Lock()
	cleanups := s.cleanups
	s.cleanups = nil
	s.mu.Unlock()
	for _, f := range slices.Backward(cleanups) {
		f()
	}
	return RemoveTree(s.Dir)
}

// RemoveTree is os.RemoveAll for what commands may have made unreadable.
func RemoveTree(dir string) error {
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

// Patience is how long one step may take.
func (s *Scene) Patience() time.Duration { return min(actor.Timeout, s.Limit/3) }

// Many is how many commands a case starts.
func (s *Scene) Many(n, brief int) int {
	if s.Kit.Brief {
		return brief
	}
	return n
}

// Pipe gives a pair that is closed at the end.
func (s *Scene) Pipe() (r, w *os.File) {
	r, w, err := os.Pipe()
	s.Must(err)
	s.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// Feed has text written to a command's input, and the input closed; the function that it
// gives waits for that.
func (s *Scene) Feed(w *os.File, text io.Reader) (fed func()) {
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, text)
		done <- errors.Join(err, w.Close())
	}()
	return func() { s.Must(<-done) }
}

// A trial is one command in the making, and its sandbox.
type Trial struct {
	Spec    shared.Spec
	Command shared.Command
	Stdin   *os.File
	// Act is what the kit's own program does inside; nil runs the Command as it is.
	Act []string
	// First are actions of earlier commands in the same sandbox.
	First [][]string
	TTY   bool
	// Script has a shell begin what the kit's program does.
	Script bool
	// During is called when the command has started or, if awaited, when its
	// action has told how it went.
	During  func(shared.Process)
	Awaited bool
}

// NewTrial is the sandbox that every case starts from.
func (s *Scene) NewTrial() *Trial {
	t := &Trial{Spec: shared.Spec{
		Sandbox:    "probe",
		Unconfined: s.Kit.Unconfined(),
		Options:    slices.Clone(s.Kit.EngineOptions),
		Prepare:    s.Kit.Prepared,
		Table: []shared.Entry{
			{Source: s.WS, Path: s.WS, Access: shared.ReadWrite, Why: "workspace"},
			{Source: s.Kit.Program, Path: s.Kit.Program, Why: "bind_paths[0]", Access: shared.ReadOnly},
		},
	}}
	if s.session != "" {
		t.Spec.Session = shared.Session{ID: s.Canary, Dir: s.session}
	}
	claims := s.Kit.Info.Features
	if s.place.AnyNetwork && !claims.Has(shared.FeatureNetworkNone) && claims.Has(shared.FeatureNetworkHost) {
		t.Spec.Network.Mode = shared.NetworkHost
	}
	if s.place.AnyView && !claims.Has(shared.FeatureFilesystemMinimal) && claims.Has(shared.FeatureFilesystemHost) {
		t.Spec.Filesystem = shared.FilesystemHost
	}
	// Where an engine claims a part, the probes of that part are tried.
	t.Spec.BestEffort = s.Engine != nil && !s.Kit.Unconfined() && shared.Refused("", t.Spec.Without(claims)) != nil
	t.Command.Dir = s.WS
	t.Command.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	t.Command.Timeout = actor.Timeout
	return t
}

// Trying is such a trial of an action.
func (s *Scene) Trying(action string, args ...string) *Trial {
	t := s.NewTrial()
	t.Do(action, args...)
	return t
}

// Do sets the action.
func (t *Trial) Do(action string, args ...string) { t.Act = append([]string{action}, args...) }

// Add adds an entry to the table.
func (t *Trial) Add(e shared.Entry) {
	if e.Why == "" {
		e.Why = "bind_paths[1]"
	}
	t.Spec.Table = append(t.Spec.Table, e)
}

// Show adds a mount at the same path inside.
func (t *Trial) Show(path string, kind shared.Access) {
	t.Add(shared.Entry{Source: path, Path: path, Access: kind})
}

// Hide adds an entry that hides a path, if it is there.
func (t *Trial) Hide(path string) {
	t.Add(shared.Entry{Path: path, Access: shared.Hidden, Missing: shared.MissingIgnore, Why: `deny_paths "probe"`})
}

// Sorted is the Spec as a host gives it.
func (t *Trial) Sorted() shared.Spec {
	spec := t.Spec
	spec.Table = slices.SortedFunc(slices.Values(spec.Table), func(a, b shared.Entry) int { return paths.Compare(a.Path, b.Path) })
	return spec
}

// Setenv adds a variable.
func (t *Trial) Setenv(name, value string) {
	t.Command.Env = append(t.Command.Env, name+"="+value)
}

const NotClaimed = "the engine does not claim "

// Missing is what of a list an engine does not claim.
func Missing(have shared.Features, want []shared.Feature) string {
	var lacking []shared.Feature
	for _, f := range want {
		if !have.Has(Claimable(have, f)) && !slices.Contains(lacking, f) {
			lacking = append(lacking, f)
		}
	}
	return Joined(lacking)
}

// Claimable is the feature by which an engine would hold f: a list of names also by a proxy.
func Claimable(have shared.Features, f shared.Feature) shared.Feature {
	if f == shared.FeatureNetworkNames && !have.Has(f) && have.Has(shared.FeatureNetworkProxy) {
		return shared.FeatureNetworkProxy
	}
	return f
}

func Joined(list []shared.Feature) string {
	var texts []string
	for _, f := range list {
		texts = append(texts, string(f))
	}
	return strings.Join(texts, ", ")
}

// HostHas is an error where something is.
func HostHas(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("it is on the host: %s", path)
	}
	return nil
}

// Until tries something again and again, while it is given an error, for one step's time.
func (s *Scene) Until(f func() error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(s.Patience())
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			s.Must(err)
		}
	}
}

// OpenAs opens a sandbox, which is closed at the end.
func (s *Scene) OpenAs(spec shared.Spec) shared.Sandbox {
	sandbox, err := s.Engine.Open(s.Ctx, spec)
	if err != nil {
		s.Failf("opening: %v", err)
	}
	s.Cleanup(func() { sandbox.Close(context.WithoutCancel(s.Ctx)) })
	return sandbox
}

// IPCKey is a key that no other scene has.
func (s *Scene) IPCKey() uint32 {
	hash := fnv.New32a()
	hash.Write([]byte(s.Canary))
	return hash.Sum32() & 0x7fffffff
}
