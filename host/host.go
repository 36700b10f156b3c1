package host

import (
	"context"
	"crypto/rand"
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

	"github.com/sbxhost/sbxhost/shared"
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
	ghToken  ghToken

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
	decision decision
	running  atomic.Int64 // commands, and whatever else holds it
}

// release gives up what Host.sandbox gave. Nil is allowed.
func (sb *openSandbox) release() {
	if sb != nil {
		sb.running.Add(-1)
	}
}

// decision says how a command may run and which rule said so.
type decision struct {
	outcome string // "sandboxed" or "unsandboxed"
	rule    string
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
	h := &Host{options: o, logger: o.Logger, engines: map[string]*engineSlot{}, sandboxes: map[string]*sandboxSlot{}}
	if h.logger == nil {
		h.logger = hclog.NewNullLogger()
	}
	if len(o.Sandboxes) == 0 {
		h.options.Sandboxes = map[string]Definition{"default": {}}
	}
	environ := o.Environ
	if environ == nil {
		environ = os.Environ()
	}
	h.caller = caller{uid: os.Getuid(), environ: environ}
	if home, _ := h.caller.lookupEnv("HOME"); filepath.IsAbs(home) {
		h.caller.home = filepath.Clean(home)
	}

	if o.EnginesOnly {
		h.resolver.ws = &workspace.Workspace{}
		return h, nil
	}
	if err := h.findWorkspace(); err != nil {
		return nil, err
	}
	h.resolver.programs = h.programs()
	return h, nil
}

// findWorkspace resolves the workspace, and what of it is protected.
func (h *Host) findWorkspace() error {
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
		discovered, err := workspace.Discover(h.dir)
		if err != nil {
			return fmt.Errorf("workspace.root: %w", err)
		}
		root = discovered
	}
	ws, err := workspace.New(workspace.Options{Root: root, Readable: h.options.Workspace.Readable, Writable: h.options.Workspace.Writable,
		Home: h.caller.home, LookupEnv: h.caller.lookupEnv})
	if err != nil {
		return fmt.Errorf("workspace.%w", err)
	}
	h.resolver = resolver{ws: ws, caller: h.caller, owner: lookupOwner(ws, h.caller), session: shared.Session{ID: rand.Text()}}
	for _, p := range h.options.Protected {
		if resolved, err := filepath.EvalSymlinks(p); err == nil && filepath.IsAbs(resolved) {
			h.resolver.protected = append(h.resolver.protected, resolved)
		} else {
			return fmt.Errorf("protected: %q: it must be an absolute path that exists", p)
		}
	}
	return nil
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

// sandbox gives the opened sandbox of a definition, opening it if need be. The
// definition is resolved for each command: a bind that has come to exist, or a
// repository that was made or moved, counts from the next one on. The caller
// must release what it gets.
func (h *Host) sandbox(ctx context.Context, name string) (*openSandbox, error) {
	if h.options.EnginesOnly {
		return nil, errors.New("host: made with EnginesOnly, it has no workspace to run commands on")
	}
	name, def, err := h.definition(name)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, ErrClosed
	}
	slot := h.sandboxes[name]
	if slot == nil {
		slot = &sandboxSlot{lock: make(chan struct{}, 1)}
		h.sandboxes[name] = slot
	}
	h.mu.Unlock()

	select {
	case slot.lock <- struct{}{}:
		defer func() { <-slot.lock }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	resolved, err := h.resolver.resolve(name, def)
	if err != nil {
		return nil, &SandboxError{Sandbox: name, Err: err}
	}
	if sb := slot.current; sb != nil && sb.engine.alive() {
		if slices.Equal(sb.resolved.spec.Mounts, resolved.spec.Mounts) {
			sb.running.Add(1)
			return sb, nil
		}
		slot.retired = append(slot.retired, sb)
		slot.current = nil
	}
	slot.closeRetired(ctx, false)
	opened, err := h.open(ctx, name, def, resolved)
	if err != nil {
		return nil, &SandboxError{Sandbox: name, Err: err}
	}
	slot.current = opened
	opened.running.Add(1)
	return opened, nil
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

func (h *Host) open(ctx context.Context, name string, def Definition, resolved *resolved) (*openSandbox, error) {
	engine, err := h.engine(ctx, def.Engine)
	if err != nil {
		return nil, err
	}
	decided, err := decide(def, engine.info)
	if err != nil {
		return nil, err
	}
	if decided.outcome == outcomeUnsandboxed {
		resolved.spec.Unconfined, resolved.notes = true, nil // which are about mounts
	}
	spec := resolved.spec
	if !spec.Unconfined && !engine.info.Features.Has(shared.FeatureRemap) {
		var notes []string
		spec, notes = resolved.asHost()
		resolved.notes = append(resolved.notes, notes...)
	}
	if missing := engine.info.Features.Missing(spec.Requires()); len(missing) > 0 {
		if r := &missing[0]; r.Feature == shared.FeatureRemap && r.Attribute == "workspace" {
			r.Attribute = "workdir" // which alone moves it
		}
		return nil, unsupported(engine.info.Name, missing[0])
	}
	sandbox, err := engine.Open(ctx, spec)
	if confirmErr := engine.confirm(ctx); confirmErr != nil {
		if err == nil {
			sandbox.Close(context.WithoutCancel(ctx))
		}
		return nil, engine.lost(confirmErr)
	}
	if err != nil {
		return nil, engine.lost(err)
	}
	return &openSandbox{Sandbox: sandbox, name: name, def: def, resolved: resolved, engine: engine, decision: decided}, nil
}

const (
	outcomeSandboxed   = "sandboxed"
	outcomeUnsandboxed = "unsandboxed"
)

// decide says whether commands of a definition run isolated. An engine that
// does not isolate runs them only if the definition's author named it; what
// "auto" found is never one.
func decide(def Definition, info shared.Info) (decision, error) {
	if !info.Features.Has(shared.FeatureUnconfined) {
		return decision{outcomeSandboxed, "engine-isolates"}, nil
	}
	if def.Engine == info.Name {
		return decision{outcomeUnsandboxed, "engine-named-unconfined"}, nil
	}
	return decision{}, &shared.Error{Kind: shared.ErrDenied, Attribute: "engine",
		Message: fmt.Sprintf("engine %q does not isolate commands", info.Name),
		Hint:    fmt.Sprintf("name it, engine = %q, if that is meant", info.Name)}
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
	sb, err := h.sandbox(ctx, sandbox)
	if err != nil {
		return err
	}
	defer sb.release()
	probe, err := sb.engine.Probe(ctx)
	if err != nil {
		return &SandboxError{Sandbox: sb.name, Err: sb.engine.lost(err)}
	}
	if !probe.Ready {
		return &SandboxError{Sandbox: sb.name, Err: &shared.Error{Kind: shared.ErrUnavailable, Attribute: "engine",
			Message: fmt.Sprintf("engine %q does not work here: %s", sb.engine.info.Name, probe.Reason), Hint: probe.Fix}}
	}
	return nil
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

// Close kills the commands that still run, stops the engines and removes what
// the Host has made. It is idempotent; commands fail with ErrClosed after it.
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

	h.identity.close()
	var errs []error
	for _, slot := range sandboxes {
		slot.lock <- struct{}{}
		// With nothing running, the end of the engine's process frees all that
		// a sandbox has; only an injected engine, which stays, has to be told.
		if sb := slot.current; sb != nil && (sb.engine.process == nil || sb.running.Load() > 0) {
			errs = append(errs, sb.close(context.Background()))
		}
		errs = append(errs, slot.closeRetired(context.Background(), true))
		slot.current = nil
		<-slot.lock
	}
	h.stopEngines(engines)
	return errors.Join(errs...)
}
