package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/dial"
	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// platformEngines are what "auto" means on a system, the best one first.
func platformEngines(goos string) []string {
	if goos == "darwin" {
		return []string{"seatbelt"}
	}
	return []string{"native", "bwrap"}
}

// engineName gives the name an engine has for what a definition may call it.
func engineName(name string) string {
	if name == "bubblewrap" {
		return "bwrap"
	}
	return name
}

// engineName is that of the engine that is tried first.
func (h *Host) engineName(name string) string {
	if isAuto(name) {
		return h.AutoEngines()[0]
	}
	return engineName(name)
}

// engineSlot holds one engine of a Host: at most one process at a time.
type engineSlot struct {
	name string
	lock chan struct{} // a mutex whose waiters can give up

	current *runningEngine // guarded by lock
}

// runningEngine is an engine that can be spoken to.
type runningEngine struct {
	shared.Engine
	info    shared.Info
	source  string
	process *dial.Launched // nil for an injected or attached engine

	disconnect func() // from an engine that somebody else started; nil for every other

	hung     atomic.Bool // and was killed for it
	doubting sync.Mutex
	doubted  bool          // it did not answer in time, once
	verdict  chan struct{} // closed when it has answered since, or was killed; nil without doubt

	confirmed  chan struct{} // closed when confirmErr is final; nil if info is the engine's own word
	confirmErr error
}

// confirm waits until the engine itself has said what its info was taken to be.
func (e *runningEngine) confirm(ctx context.Context) error {
	if e.confirmed == nil {
		return nil
	}
	select {
	case <-e.confirmed:
		return e.confirmErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

// doubt has an engine that did not answer in time show that it still does. Nobody
// uses it before that, and one that hangs is killed.
func (e *runningEngine) doubt() {
	e.doubting.Lock()
	defer e.doubting.Unlock()
	if e.process == nil || e.verdict != nil {
		return
	}
	verdict := make(chan struct{})
	e.doubted, e.verdict = true, verdict
	go func() {
		late := time.AfterFunc(enginePatience, e.kill)
		e.process.Ping()
		late.Stop()
		e.doubting.Lock()
		defer e.doubting.Unlock()
		e.verdict = nil
		close(verdict)
	}()
}

// usable reports whether the engine lives, and answers.
func (e *runningEngine) usable(ctx context.Context) (bool, error) {
	e.doubting.Lock()
	verdict := e.verdict
	e.doubting.Unlock()
	if verdict != nil {
		at(ctx, "engine %q did not answer", e.info.Name)
		select {
		case <-verdict:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return e.alive(), nil
}

// kill kills the engine's process, if that is ours to kill.
func (e *runningEngine) kill() {
	e.doubting.Lock()
	e.doubted = true
	e.doubting.Unlock()
	if e.process != nil && e.running() {
		e.hung.Store(true)
		_ = e.process.Signal(syscall.SIGKILL)
	}
}

// stop ends the engine and what it has started. One that is asked to leave clears up
// itself after a start that was given up, unless it hangs.
func (e *runningEngine) stop() {
	e.doubting.Lock()
	doubted := e.doubted
	e.doubting.Unlock()
	switch {
	case e.disconnect != nil:
		e.disconnect()
	case e.process == nil:
	case doubted:
		e.process.Leave(lostPatience)
		e.process.Kill()
		sandboxinit.KillOrphans(orphanPatience)
	default:
		e.process.Leave(idlePatience)
		e.process.Kill()
	}
}

func (e *runningEngine) alive() bool {
	return e.process == nil || !e.hung.Load() && e.running() // its end takes a moment
}

// running reports whether the engine's process has not ended.
func (e *runningEngine) running() bool {
	select {
	case <-e.process.Exited():
		return false
	default:
		return true
	}
}

// idlePatience is how long an engine in which nothing runs may take to leave.
const idlePatience = 250 * time.Millisecond

// lostPatience is how long an engine whose connection is gone may take to end.
const lostPatience = time.Second

// orphanPatience is how long the launchers of an engine that was killed may take
// to end.
const orphanPatience = 200 * time.Millisecond

// lost turns the loss of an engine's process into an error that says so with
// the end of its log, and gives every other error as it is.
func (e *runningEngine) lost(err error) error {
	if e.process == nil || !errors.Is(err, shared.ErrEngineLost) || errors.As(err, new(*EngineError)) {
		return err
	}
	lived := ""
	if e.hung.Load() {
		lived = ": it did not answer in time, and was killed"
	}
	select {
	case <-e.process.Exited():
	case <-time.After(lostPatience):
		// A process that lives on without its connection is of no use, and must
		// not make anybody wait.
		lived = ": it broke off a call, lived on, and was killed"
		_ = e.process.Signal(syscall.SIGKILL)
		select {
		case <-e.process.Exited():
		case <-time.After(lostPatience): // the kernel holds it
		}
	}
	sandboxinit.KillOrphans(orphanPatience)
	return &EngineError{Engine: e.info.Name, Source: e.source,
		Err: fmt.Errorf("%w%s (%v), and its commands with it", shared.ErrEngineLost, lived, e.process.State()), Log: e.process.Log()}
}

// engine gives a living engine of that name and starts it if need be.
func (h *Host) engine(ctx context.Context, name string) (*runningEngine, error) {
	name = h.engineName(name)
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, ErrClosed
	}
	slot := h.engines[name]
	if slot == nil {
		slot = &engineSlot{name: name, lock: make(chan struct{}, 1)}
		h.engines[name] = slot
	}
	h.mu.Unlock()

	select {
	case slot.lock <- struct{}{}:
		defer func() { <-slot.lock }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if h.isClosed() { // while we waited; Close would not see what is started now
		return nil, ErrClosed
	}
	if slot.current != nil {
		usable, err := slot.current.usable(ctx)
		if usable || err != nil {
			return slot.current, err
		}
		slot.current.process.Kill() // reaps what is left of the one that died
		sandboxinit.KillOrphans(orphanPatience)
		slot.current = nil
	}
	at(ctx, "engine %q was started", name)
	e, err := h.startEngine(ctx, name)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		e.stop()
		return nil, ErrClosed
	}
	slot.current = e
	return e, nil
}

// engineAhead starts an engine beside its caller, who has a workspace to search
// meanwhile, and gives what waits for it. Who will not need it any more cancels.
func (h *Host) engineAhead(ctx context.Context, name string) (wait func() (*runningEngine, error), cancel func()) {
	ctx, cancel = context.WithCancel(ctx)
	var e *runningEngine
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		e, err = h.engine(ctx, name)
	}()
	runtime.Gosched() // it comes first: to wake another thread for it takes half a millisecond
	return func() (*runningEngine, error) {
		<-done
		return e, err
	}, cancel
}

func (h *Host) startEngine(ctx context.Context, name string) (*runningEngine, error) {
	if injected, ok := h.options.Inject[name]; ok {
		info, err := injected.Info(ctx)
		if err != nil {
			return nil, &EngineError{Engine: name, Source: "injected", Err: err}
		}
		return &runningEngine{Engine: injected, info: info, source: "injected"}, nil
	}
	if at, ok := h.options.Reattach[name]; ok {
		return h.reattach(ctx, name, at)
	}
	spec, err := h.findEngine(name)
	if err != nil {
		return nil, err
	}
	if err := spec.unpinned(); err != nil {
		return nil, err
	}
	process, err := h.launch(ctx, spec)
	if err != nil {
		return nil, err
	}
	e := &runningEngine{Engine: process.Engine, source: spec.source, process: process}
	if known, ok := h.options.Builtins.Info(name); ok && !spec.declared {
		// This program contains the same engine, so that there is no need to
		// wait for what it says: it is asked while it opens its first sandbox.
		e.info, e.confirmed = known, make(chan struct{})
		go func() {
			defer close(e.confirmed)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.startTimeout())
			defer cancel()
			info, err := e.Info(ctx)
			if err == nil && (info.Version != known.Version || !slices.Equal(info.Features, known.Features)) {
				err = fmt.Errorf("is of version %s and this program contains version %s; install both from one release, or remove it", info.Version, known.Version)
			}
			if err != nil {
				e.confirmErr = &EngineError{Engine: name, Source: spec.source, Err: err}
			}
		}()
		return e, nil
	}
	// As for the handshake: an engine that listens and does not answer is none.
	asked, cancel := context.WithTimeout(ctx, h.startTimeout())
	defer cancel()
	if e.info, err = e.Info(asked); err != nil {
		if asked.Err() != nil && ctx.Err() == nil {
			err = dial.ErrMute(h.startTimeout())
		}
		process.Kill()
		return nil, &EngineError{Engine: name, Source: spec.source, Err: err, Log: process.Log()}
	}
	return e, nil
}

// findEngine says which executable serves an engine: the one that a
// definition's author declared, the lean one beside this program, or this
// program itself.
func (h *Host) findEngine(name string) (launchSpec, error) {
	if declared, ok := h.options.Engines[name]; ok {
		return h.declaredEngine(name, declared)
	}
	_, builtin := h.options.Builtins.engines[name]
	dir := h.engineDir()
	more, separate := separateEnv(name)
	env := pickEnv(h.caller.Environ, slices.Concat(builtinEngineEnv[:], more))
	// Of this program's directory only what is part of it: where other engines are
	// installed is EnginePath's to say.
	if dir != "" && ValidEngineName(name) && (builtin || ownEngine(name) || h.options.EngineDir != "") {
		beside := filepath.Join(dir, "sbxhost-engine-"+name)
		path, err := checkExecutable(beside)
		if err == nil {
			return launchSpec{name: name, path: path, source: path, env: env}, nil
		}
		// What is there and unsafe is refused, not passed over in silence.
		if !errors.Is(err, fs.ErrNotExist) {
			return launchSpec{}, &EngineError{Engine: name, Source: beside, Err: err}
		}
	}
	if builtin {
		self, err := selfPath()
		if err != nil {
			return launchSpec{}, &EngineError{Engine: name, Source: "built in", Err: err}
		}
		return launchSpec{name: name, path: self, self: true, source: "built in", env: append(env, builtinEnvVar+"="+name)}, nil
	}
	if ValidEngineName(name) {
		path, err := h.installedEngine(name)
		if err == nil {
			spec := launchSpec{name: name, path: path, source: path}
			if separate {
				spec.env = env
			}
			return spec, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return launchSpec{}, err
		}
	}
	if separate {
		return launchSpec{}, &shared.Error{Kind: shared.ErrUnusable, Attribute: "engine",
			Message: fmt.Sprintf("the engine %q is a program of its own, and is not installed", name),
			Hint: fmt.Sprintf("put sbxhost-engine-%[1]s beside sbxhost or in a directory of SBXHOST_ENGINE_PATH: "+
				"CGO_ENABLED=0 go install github.com/sbxhost/sbxhost/plugins/%[1]s/sbxhost-engine-%[1]s@latest", name)}
	}
	return launchSpec{}, &shared.Error{Kind: shared.ErrUnusable, Attribute: "engine",
		Message: fmt.Sprintf("no engine %q is known here", name),
		Hint:    "known are " + strings.Join(h.EngineNames(), ", ") + "; install others in a directory of SBXHOST_ENGINE_PATH, or declare them in an engine block"}
}

func (h *Host) declaredPath(declared EngineSource) string {
	if rest, ok := strings.CutPrefix(declared.Source, "~/"); ok && h.caller.Home != "" {
		return filepath.Join(h.caller.Home, rest)
	}
	return declared.Source
}

func (h *Host) declaredEngine(name string, declared EngineSource) (launchSpec, error) {
	path := h.declaredPath(declared)
	if !filepath.IsAbs(path) {
		return launchSpec{}, view.Invalid("engine."+name+".source", fmt.Sprintf("%q is not absolute", path), "an engine is never looked up in PATH or the workspace")
	}
	resolved, err := h.checkFound(path)
	if err != nil {
		return launchSpec{}, &EngineError{Engine: name, Source: path, Err: err}
	}
	spec := launchSpec{name: name, path: resolved, source: path, declared: true, args: declared.Args, env: pickEnv(h.caller.Environ, declared.Env)}
	if len(declared.SHA256) > 0 {
		spec.pinned, spec.sha256 = true, strings.ToLower(declared.SHA256[Platform()])
	}
	return spec, nil
}

// programs are the executables that this host may come to run outside of
// sandboxes: this program, the engines and inits beside it and in EngineDir, and
// the declared engines.
func (h *Host) programs() []string {
	var list []string
	add := func(path string) {
		if resolved, err := filepath.EvalSymlinks(path); err == nil && !slices.Contains(list, resolved) {
			list = append(list, resolved)
		}
	}
	dirs := []string{h.options.EngineDir}
	if exe, err := os.Executable(); err == nil {
		add(exe)
		dirs = append(dirs, filepath.Dir(exe))
	}
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		for _, name := range append(h.EngineNames(), "bwrap") {
			add(filepath.Join(dir, "sbxhost-engine-"+name))
		}
		add(filepath.Join(dir, "sbxhost-init"))
		add(filepath.Join(dir, "sbxhost"))
	}
	for _, declared := range h.options.Engines {
		add(h.declaredPath(declared))
	}
	for _, path := range InstalledEngines(h.options.EnginePath) {
		add(path)
	}
	return list
}

// EngineNames lists the engines this Host knows, sorted.
func (h *Host) EngineNames() []string {
	names := map[string]bool{}
	for name := range h.options.Builtins.engines {
		names[name] = true
	}
	for name := range h.options.Engines {
		names[name] = true
	}
	for name := range h.options.Inject {
		names[name] = true
	}
	for name := range h.options.Reattach {
		names[name] = true
	}
	for _, name := range h.foreignNames() {
		names[name] = true
	}
	for name, path := range h.SeparateEngines() {
		if path != "" {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// builtinEngineEnv is what a built-in engine's process sees of the host's
// environment. Commands see none of it.
var builtinEngineEnv = [...]string{"SBXHOST_LOG", "TMPDIR", "XDG_RUNTIME_DIR"}

// ownEngine reports whether an engine of that name is part of this project, which
// installs them beside one another.
func ownEngine(name string) bool {
	switch name {
	case "native", "bwrap", "seatbelt", "docker", "noop":
		return true
	}
	return false
}

// separateEngines are the engines of this project that are programs of their own
// and no part of sbxhost.
var separateEngines = [...]string{"docker"}

// separateEnv is what more such an engine's process sees of the host's
// environment; ok says that there is one of that name.
func separateEnv(name string) (env []string, ok bool) {
	switch name {
	case "docker":
		return []string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "HOME", "XDG_CACHE_HOME"}, true
	}
	return nil, false
}

// engineDir is where engines stand that were installed with this program.
func (h *Host) engineDir() string {
	if h.options.EngineDir != "" {
		return h.options.EngineDir
	}
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Dir(exe)
}

// SeparateEngines lists those of this project's engines that are programs of
// their own, and where they stand beside this program: "" where they do not.
func (h *Host) SeparateEngines() map[string]string {
	found := make(map[string]string, len(separateEngines))
	for _, name := range separateEngines {
		found[name] = ""
		if dir := h.engineDir(); dir != "" {
			path := filepath.Join(dir, enginePrefix+name)
			if _, err := os.Lstat(path); err == nil {
				found[name] = path
			}
		}
	}
	return found
}

func pickEnv(environ, names []string) []string {
	var picked []string
	for _, entry := range environ {
		if name, _, ok := strings.Cut(entry, "="); ok && slices.Contains(names, name) {
			picked = append(picked, entry)
		}
	}
	return picked
}

// checkExecutable resolves path and refuses a program that somebody else could
// have put there.
func checkExecutable(path string) (string, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(resolved)
	if err != nil {
		return "", err
	}
	return resolved, hostpath.CheckExecutable(resolved, info)
}

// stopEngines begins to stop every engine's process, and gives what waits for
// their ends.
func (h *Host) stopEngines(ctx context.Context, slots []*engineSlot) (wait func()) {
	var wg sync.WaitGroup
	for _, slot := range slots {
		wg.Go(func() {
			if !acquire(ctx, slot.lock) {
				return // who starts it finds the Host closed
			}
			defer func() { <-slot.lock }()
			if slot.current != nil {
				slot.current.stop()
			}
			slot.current = nil
		})
	}
	return wg.Wait
}
