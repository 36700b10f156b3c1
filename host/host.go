package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sbxhost/sbxhost/audit"
	"github.com/sbxhost/sbxhost/host/session"
	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/policy"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/stubs"
	"github.com/sbxhost/sbxhost/workspace"
)

// Host runs commands in sandboxes. It is safe for concurrent use.
type Host struct {
	options  Options
	logger   hclog.Logger
	caller   caller
	dir      string // absolute; where commands without a Dir run
	resolver resolver
	identity gitIdentity
	places   *stubs.Registry // nil until the workspace is known
	linger   *lingerer
	ghToken  ghToken
	session  *session.Session // nil with EnginesOnly
	audit    *audit.Log       // nil: none

	life context.Context // ends with Close
	shut context.CancelFunc

	mu        sync.Mutex
	closed    bool
	engines   map[string]*engineSlot
	sandboxes map[string]*sandboxSlot
}

// sandboxSlot holds the opened sandbox of one definition.
type sandboxSlot struct {
	lock    chan struct{}
	current *openSandbox   // guarded by lock, as is retired
	retired []*openSandbox // what others took the place of, while commands run in them
}

// openSandbox is a definition opened in an engine.
type openSandbox struct {
	shared.Sandbox
	name     string
	def      Definition
	resolved *resolved
	engine   *runningEngine
	decision policy.Decision
	running  *atomic.Int64 // commands, and whatever else holds it
	giveUp   func()        // of one command: what holds places for it
}

// release gives up what Host.sandbox gave. Nil is allowed.
func (sb *openSandbox) release() {
	if sb != nil {
		sb.giveUp()
		sb.running.Add(-1)
	}
}

// forCommand is sb for one command, with what was resolved for it.
func (sb *openSandbox) forCommand(now *resolved, giveUp func()) *openSandbox {
	sb.running.Add(1)
	one, r := *sb, *now
	one.giveUp, one.resolved = giveUp, &r
	r.spec = sb.resolved.spec
	if r.spec.Unconfined {
		r.notes = nil // which are about mounts
	}
	return &one
}

// New makes a Host. It resolves the workspace and starts nothing: engines
// start when a command first needs them. An error names the option at fault.
func New(ctx context.Context, o Options) (*Host, error) {
	if err := forgottenServeBuiltin(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for name := range o.Reattach {
		if !ValidEngineName(name) || isAuto(name) || engineName(name) != name {
			return nil, fmt.Errorf("%s: %q is not the name of an engine; it takes the name by which the engine calls itself", shared.ReattachEnv, name)
		}
	}
	h := &Host{options: o, logger: o.Logger, linger: newLingerer(o.Linger), engines: map[string]*engineSlot{}, sandboxes: map[string]*sandboxSlot{}}
	h.life, h.shut = context.WithCancel(context.Background())
	if h.logger == nil {
		h.logger = hclog.NewNullLogger()
	}
	if len(o.Sandboxes) == 0 {
		h.options.Sandboxes = map[string]Definition{"default": {}}
	}
	h.caller = callerOf(o)

	if o.EnginesOnly {
		h.resolver.ws = &workspace.Workspace{}
		return h, nil
	}
	if err := h.findWorkspace(ctx); err != nil {
		h.session.Close()
		return nil, err
	}
	h.resolver.programs = h.programs()
	h.resolver.own = h.ownPlaces(h.resolver.owner)
	h.resolver.relied = h.reliesOn()
	h.resolver.engines = h.enginePlaces()
	return h, nil
}

// findWorkspace resolves the workspace, and what of it is protected.
func (h *Host) findWorkspace(ctx context.Context) error {
	h.dir = h.options.Dir
	if h.dir == "" {
		cwd, err := os.Getwd()
		if err != nil {
			return fmt.Errorf("dir: %w", err)
		}
		h.dir = cwd
	}
	root := h.options.Workspace.Root
	if root == "" {
		discovered, err := workspace.Discover(h.dir, h.caller.home)
		if err != nil {
			return fmt.Errorf("workspace.root: %w", err)
		}
		root = discovered
	}
	roots := workspace.Options{Root: root, Readable: h.options.Workspace.Readable, Writable: h.options.Workspace.Writable,
		Home: h.caller.home, LookupEnv: h.caller.lookupEnv, DenySensitive: h.options.Sensitive.Deny, HarmlessNames: h.options.Sensitive.Harmless}
	ws, err := workspace.New(roots)
	if err != nil {
		return fmt.Errorf("workspace.%w", err)
	}
	owner := lookupOwner(ws, h.caller)
	h.session, err = session.New(h.options.Session, session.For{Root: ws.Root(), Temp: h.options.Workspace.Temp, Owner: owner.forFiles(), LookupEnv: h.caller.lookupEnv, Logger: h.logger})
	if err != nil {
		return err
	}
	if h.options.Workspace.Temp {
		// Whose it is to be depends on the workspace's owner.
		if roots.TempAlias, err = h.session.Temp(ctx); err != nil {
			return err
		}
		if ws, err = workspace.New(roots); err != nil {
			return fmt.Errorf("workspace.%w", err)
		}
	}
	h.resolver = resolver{ws: ws, caller: h.caller, owner: owner, sessionBases: session.Bases(h.session.Base(), h.caller.lookupEnv, owner.homeDir()),
		sensitive: h.options.Sensitive, addOns: []string{"/opt"}, served: []string{"/srv"}, scanners: &scanners{memory: h.treeMemory(ws.Root())}, unisolated: h.unisolated}
	if h.options.Workspace.Root == "" {
		h.resolver.outer = outerRoots(ws.Root(), h.caller.home)
	}
	for i, p := range h.options.Workspace.ControlSockets {
		if !filepath.IsAbs(p) {
			return fmt.Errorf("workspace.control_sockets[%d]: %q is not absolute", i, p)
		}
		h.resolver.control = append(h.resolver.control, filepath.Clean(p))
	}
	ledgers := ""
	if dir := h.caller.stateDir(); dir != "" {
		ledgers = filepath.Join(dir, "stubs")
	}
	h.places = stubs.New(ledgers)
	if h.options.Workspace.Toolchains {
		h.resolver.toolchains = findToolchains(h.caller, owner)
	}
	for _, p := range h.options.Protected {
		if resolved, err := filepath.EvalSymlinks(p); err == nil && filepath.IsAbs(resolved) {
			h.resolver.protected = append(h.resolver.protected, resolved)
		} else {
			return fmt.Errorf("protected: %q: it must be an absolute path that exists", p)
		}
	}
	if store := h.options.Approvals.Store; store != nil {
		h.resolver.recorded = append(h.resolver.recorded, record{path: store.Dir(), attribute: "approvals", what: "what was approved"})
	}
	options := h.options.Audit
	if filepath.IsAbs(options.Path) {
		if options.Path, err = hostpath.Resolve("/", options.Path, func() []string { return WritableDirs(h.options) }); err != nil {
			return attributeError("audit.path", err.Error(), "")
		}
	}
	if h.audit, err = audit.New(options); err != nil {
		return err
	}
	if h.audit != nil {
		h.resolver.recorded = append(h.resolver.recorded, record{path: filepath.Clean(h.options.Audit.Path), attribute: "audit.path", what: "the audit log", file: true})
	}
	return nil
}

// unisolated reports whether a definition names a built-in or injected engine
// that does not isolate.
func (h *Host) unisolated(d Definition) bool {
	if engine, ok := h.options.Inject[d.Engine]; ok {
		info, err := engine.Info(context.Background())
		return err == nil && info.Features.Has(shared.FeatureUnconfined)
	}
	if _, declared := h.options.Engines[d.Engine]; declared {
		return false
	}
	info, ok := h.options.Builtins.Info(d.Engine)
	return ok && info.Features.Has(shared.FeatureUnconfined)
}

func callerOf(o Options) caller {
	environ := o.Environ
	if environ == nil {
		environ = os.Environ()
	}
	c := caller{uid: os.Getuid(), environ: environ}
	if home, _ := c.lookupEnv("HOME"); filepath.IsAbs(home) {
		c.home = filepath.Clean(home)
	}
	return c
}

// lookupEnv reads the caller's environment.
func (c caller) lookupEnv(name string) (string, bool) {
	for _, entry := range slices.Backward(c.environ) { // the last one counts, as in os/exec
		if have, value, ok := strings.Cut(entry, "="); ok && have == name {
			return value, true
		}
	}
	return "", false
}

func (h *Host) startTimeout() time.Duration {
	if h.options.StartTimeout > 0 {
		return h.options.StartTimeout
	}
	return defaultStartTimeout
}

// Workspace resolves paths as commands see them: what a command calls /tmp/x is
// the file that ResolveForRead("/tmp/x") finds, if WorkspaceOptions.Temp is set.
// Of what lies in an overlay - an extra readable root, a toolchain - it finds
// the host's file, which a command may have changed for its session.
func (h *Host) Workspace() *workspace.Workspace { return h.resolver.ws }

// Root is the resolved directory of the workspace.
func (h *Host) Root() string { return h.resolver.ws.Root() }

// SandboxNames lists the definitions, sorted.
func (h *Host) SandboxNames() []string {
	return slices.Sorted(maps.Keys(h.options.Sandboxes))
}

// definition finds a definition; "" is the default one.
func (h *Host) definition(name string) (string, Definition, error) {
	if name == "" {
		name = h.options.DefaultSandbox
	}
	if name == "" {
		if len(h.options.Sandboxes) > 1 {
			return "", Definition{}, fmt.Errorf("%w: none is named and there is no default_sandbox; there are %s",
				ErrUnknownSandbox, strings.Join(h.SandboxNames(), ", "))
		}
		name = h.SandboxNames()[0]
	}
	def, ok := h.options.Sandboxes[name]
	if !ok {
		return "", Definition{}, fmt.Errorf("%w %q; there are %s", ErrUnknownSandbox, name, strings.Join(h.SandboxNames(), ", "))
	}
	return name, def, nil
}

var errEnginesOnly = errors.New("host: made with EnginesOnly, it has no workspace to run commands on")

// sandbox gives the opened sandbox of a definition, opening it if need be. The
// definition is resolved for each command: a bind that has come to exist, or a
// repository that was made or moved, counts from the next one on. The caller
// must release what it gets.
func (h *Host) sandbox(ctx context.Context, name string, via route) (*openSandbox, error) {
	if h.options.EnginesOnly {
		return nil, errEnginesOnly
	}
	name, def, err := h.definition(name)
	if err != nil {
		return nil, err
	}
	def = forRoute(def, via)
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, ErrClosed
	}
	slot := h.sandboxes[via.slot(name)]
	if slot == nil {
		slot = &sandboxSlot{lock: make(chan struct{}, 1)}
		h.sandboxes[via.slot(name)] = slot
	}
	h.mu.Unlock()

	select {
	case slot.lock <- struct{}{}:
		defer func() { <-slot.lock }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	engine := func() (*runningEngine, error) { return h.engine(ctx, cmp.Or(via.engine, def.Engine)) }
	if slot.current == nil {
		var cancel func()
		engine, cancel = h.engineAhead(ctx, cmp.Or(via.engine, def.Engine))
		defer cancel()
	}
	resolved, err := h.resolve(ctx, name, def, via.unconfined)
	if err != nil {
		return nil, err
	}
	at(ctx, "it waited for the lock of what holds the places of missing paths")
	held, err := h.hold(ctx, resolved)
	if err != nil {
		return nil, &SandboxError{Sandbox: name, Err: err}
	}
	giveUp := func() { h.linger.giveUp(via.slot(name), held) }
	if sb := slot.current; sb != nil {
		usable, err := sb.engine.usable(ctx)
		switch {
		case err != nil:
			held.Release()
			return nil, err
		case usable && slices.Equal(sb.resolved.spec.Table, resolved.spec.Table):
			return sb.forCommand(resolved, giveUp), nil
		case usable:
			slot.retired = append(slot.retired, sb)
			slot.current = nil
		}
	}
	opened, err := h.open(ctx, name, def, resolved, via, engine)
	if err != nil {
		held.Release()
		return nil, &SandboxError{Sandbox: name, Err: err}
	}
	if h.isClosed() { // Close may not have waited for us
		held.Release()
		opened.close(context.Background())
		return nil, ErrClosed
	}
	slot.current = opened
	// Not before: what an engine keeps for a session can go with its last sandbox.
	slot.closeRetired(ctx, false)
	return opened.forCommand(resolved, giveUp), nil
}

// closeRetired closes the retired sandboxes that nobody uses; with all, those
// too whose commands it kills by that. Its caller holds the lock, under which
// alone somebody begins to use one.
func (s *sandboxSlot) closeRetired(ctx context.Context, all bool) error {
	var errs []error
	s.retired = slices.DeleteFunc(s.retired, func(sb *openSandbox) bool {
		if !all && sb.running.Load() > 0 {
			return false
		}
		errs = append(errs, sb.close(ctx))
		return true
	})
	return errors.Join(errs...)
}

// close closes a sandbox in its engine and kills what runs in it.
func (sb *openSandbox) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := sb.Sandbox.Close(ctx); err != nil && !errors.Is(err, shared.ErrEngineLost) {
		return fmt.Errorf("sandbox %q: %w", sb.name, err)
	}
	return nil
}

// SandboxError says which definition could not be used. It unwraps to the
// cause: a *shared.Error names the attribute at fault.
type SandboxError struct {
	Sandbox string
	Err     error
}

func (e *SandboxError) Error() string { return fmt.Sprintf("sandbox %q: %v", e.Sandbox, e.Err) }

// Unwrap gives the cause.
func (e *SandboxError) Unwrap() error { return e.Err }

func (h *Host) open(ctx context.Context, name string, def Definition, resolved *resolved, via route, started func() (*runningEngine, error)) (*openSandbox, error) {
	at(ctx, "engine %q was started", h.engineName(cmp.Or(via.engine, def.Engine)))
	engine, err := started()
	if err != nil {
		return nil, err
	}
	var decided policy.Decision // denies: that of an unconfined route is made for each command
	if via.unconfined {
		// Who approves the run approves that no limit is held; events say so.
		resolved.spec.Unconfined, resolved.spec.Limits.BestEffort = true, true
		if missing := engine.info.Features.Missing(resolved.spec.Requires()); len(missing) > 0 {
			return nil, unsupported(engine.info.Name, missing[0])
		}
	} else {
		resolved.spec.Unconfined = engine.info.Features.Has(shared.FeatureUnconfined)
	}
	spec := resolved.spec
	if !spec.Unconfined && !engine.info.Features.Has(shared.FeatureRemap) {
		var notes []string
		spec, notes = resolved.asHost()
		resolved.notes = append(resolved.notes, notes...)
	}
	if !engine.info.Features.Has(shared.FeatureHidden) {
		// Nobody has asked for it, and nothing of the host shows there.
		spec.Table = slices.DeleteFunc(slices.Clone(spec.Table), func(e shared.Entry) bool { return e.Why == view.OriginAbove })
	}
	if !via.unconfined {
		if decided, err = h.decideEngine(def, engine.info, &spec); err != nil {
			return nil, err
		}
	}
	if resolved.spec.Unconfined {
		resolved.notes = nil // which are about mounts
	}
	at(ctx, "engine %q opened the sandbox", engine.info.Name)
	spec.Prepare = !h.options.OneShot
	sandbox, err := engine.Open(ctx, spec)
	if err != nil && ctx.Err() != nil {
		engine.doubt()
	}
	if confirmErr := engine.confirm(ctx); confirmErr != nil {
		if err == nil {
			sandbox.Close(context.WithoutCancel(ctx))
		}
		return nil, engine.lost(confirmErr)
	}
	if err != nil {
		return nil, engine.lost(err)
	}
	return &openSandbox{Sandbox: sandbox, name: name, def: def, resolved: resolved, engine: engine, decision: decided,
		running: new(atomic.Int64)}, nil
}

func unsupported(engine string, r shared.Requirement) error {
	return &shared.Error{Kind: shared.ErrUnsupported, Attribute: r.Attribute,
		Message: fmt.Sprintf("engine %q cannot hold this: it has no feature %s", engine, r.Feature),
		Hint:    "take it out of the definition or use another engine"}
}

// Check finds all that can fail before a command is known: the definition, its
// paths, the engine's executable, and, by doing, whether the engine works on
// this machine. An empty name means the default sandbox.
func (h *Host) Check(ctx context.Context, sandbox string) error {
	if h.options.EnginesOnly {
		return errEnginesOnly
	}
	sb, _, err := h.ready(ctx, sandbox)
	sb.release()
	return err
}

// EngineInfo gives what an engine says of itself, starting it if need be.
func (h *Host) EngineInfo(ctx context.Context, name string) (shared.Info, error) {
	e, err := h.engine(ctx, name)
	if err != nil {
		return shared.Info{}, err
	}
	if err := e.confirm(ctx); err != nil {
		return shared.Info{}, err
	}
	return e.info, nil
}

// EngineProbe finds out whether an engine works on this machine, starting it
// if need be.
func (h *Host) EngineProbe(ctx context.Context, name string) (shared.Probe, error) {
	e, err := h.engine(ctx, name)
	if err != nil {
		return shared.Probe{}, err
	}
	probe, err := e.Probe(ctx)
	return probe, e.lost(err)
}

// closeTimeout bounds how long Close asks an engine to end its commands, before
// it kills the engine and them with it.
const closeTimeout = 5 * time.Second

// releaseTime bounds how long Close waits for what a start that hangs, or another
// process, keeps locked. What it leaves behind for that, the next run removes.
const releaseTime = 2 * time.Second

// acquire takes a lock whose holder may hang.
func acquire(ctx context.Context, lock chan struct{}) bool {
	select {
	case lock <- struct{}{}:
		return true
	default: // nobody has to wait for one that is free
	}
	select {
	case lock <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Close kills the commands that still run, stops the engines and removes what
// the Host has made. It is idempotent; commands fail with ErrClosed after it. It
// waits for no command that is being started, nor for longer than a few seconds for
// an engine that hangs or a lock that another process holds.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	sandboxes := slices.Collect(maps.Values(h.sandboxes))
	engines := slices.Collect(maps.Values(h.engines))
	h.mu.Unlock()

	h.shut()
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	h.identity.close()
	var errs []error
	for _, slot := range sandboxes {
		if !acquire(ctx, slot.lock) {
			continue // who has it finds the Host closed
		}
		if sb := slot.current; sb != nil && (sb.engine.process == nil || sb.running.Load() > 0) {
			errs = append(errs, sb.close(context.Background())) // the engine closes others as it ends
		}
		errs = append(errs, slot.closeRetired(context.Background(), true))
		slot.current = nil
		<-slot.lock
	}
	ended := h.stopEngines(ctx, engines)
	released := make(chan error, 1)
	go func() {
		h.linger.close() // no command runs any more, and engines take a moment to end
		if h.places == nil {
			released <- nil
		} else {
			released <- h.places.Close()
		}
	}()
	select {
	case err := <-released:
		errs = append(errs, err)
	case <-time.After(releaseTime):
		errs = append(errs, errors.New("host: another process holds the lock of what holds the places of missing paths, which stays for the next run to remove"))
	}
	ended()
	return errors.Join(append(errs, h.session.Close())...)
}

func (h *Host) isClosed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}
