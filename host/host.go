package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/sbxhost/sbxhost/audit"
	"github.com/sbxhost/sbxhost/host/facts"
	"github.com/sbxhost/sbxhost/host/launch"
	"github.com/sbxhost/sbxhost/host/session"
	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/review"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/stubs"
	"github.com/sbxhost/sbxhost/workspace"
)

// Host runs commands in sandboxes. It is safe for concurrent use.
type Host struct {
	options Options
	engines *launch.Engines
	logger  hclog.Logger // of the caller, until logging is closed
	logging logGate
	caller  facts.Caller
	machine *facts.Machine
	places  *stubs.Registry // nil until the workspace is known
	linger  *session.Lingerer
	session *session.Session // nil with EnginesOnly
	audit   *audit.Log       // nil: none

	life    context.Context // ends with Close
	endLife context.CancelFunc

	mu        sync.Mutex
	closed    bool
	sandboxes map[string]*sandboxSlot
	uses      uint64 // of slots
	lateBinds []Bind // those that are writable, of definitions that New was not given

	reviews reviewsInUse
}

// New makes a Host. It resolves the workspace and starts nothing: engines
// start when a command first needs them. An error names the option at fault.
func New(ctx context.Context, o Options) (*Host, error) {
	if err := launch.ForgottenServeBuiltin(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := o.fillIn(); err != nil {
		return nil, err
	}
	h := &Host{options: o, logger: o.Logger, linger: session.NewLingerer(o.Linger), sandboxes: map[string]*sandboxSlot{}}
	h.life, h.endLife = context.WithCancel(context.Background())
	if h.logger == nil {
		h.logger = hclog.NewNullLogger()
	}
	h.logger = gatedLogger{h.logger, &h.logging}
	if len(o.Sandboxes) == 0 {
		h.options.Sandboxes = map[string]Definition{"default": {}}
	}
	h.caller = callerOf(&o)
	h.machine = onlyCaller(h.caller)
	var err error
	h.engines, err = launch.New(launch.Options{
		Builtins: o.Builtins, Dir: o.EngineDir, Declared: o.Engines, Path: o.EnginePath, Reattach: o.Reattach, Inject: o.Inject,
		Home: h.caller.Home, Environ: h.caller.Environ, StartTimeout: o.StartTimeout, Logger: h.logger,
		WritableDir: func(p string) string {
			_, dir := h.commandsWrite([]string{p})
			return dir
		},
	})
	if err != nil {
		return nil, err
	}
	if o.EnginesOnly {
		return h, nil
	}
	if err := h.validate(); err != nil {
		return nil, err
	}
	if err := h.findWorkspace(ctx); err != nil {
		h.session.Close()
		return nil, err
	}
	return h, nil
}

// validate reports what no command could run with.
func (h *Host) validate() error {
	o := &h.options
	switch {
	case o.StartTimeout < 0:
		return errors.New("Options.StartTimeout is negative")
	case o.Approvals.SessionTTL < 0:
		return errors.New("Options.Approvals.SessionTTL is negative")
	case h.engines.None():
		return errors.New("Options.Builtins is empty, and there is no other engine: call host.ServeBuiltin first in main, and give New what it returns")
	}
	for _, name := range slices.Sorted(maps.Keys(o.Sandboxes)) {
		if err := h.checkDefinition(name, o.Sandboxes[name]); err != nil {
			return err
		}
	}
	return nil
}

// checkDefinition reports a definition that means nothing, or names an engine that there is not.
func (h *Host) checkDefinition(name string, def Definition) error {
	err := def.Validate()
	if err == nil && !launch.IsAuto(def.Engine) && !h.engines.Known(launch.Name(def.Engine)) {
		err = view.Invalid("engine", fmt.Sprintf("there is no engine %q", def.Engine), fmt.Sprintf("those there are: %q", h.engines.Names()))
	}
	if err != nil {
		return &SandboxError{Sandbox: name, Err: err}
	}
	return nil
}

// findWorkspace resolves the workspace, and what of it is protected.
func (h *Host) findWorkspace(ctx context.Context) error {
	o := &h.options
	root := o.Workspace.Root
	if root == "" {
		discovered, err := workspace.Discover(o.Dir, h.caller.Home)
		if err != nil {
			return fmt.Errorf("workspace.root: %w", err)
		}
		root = discovered
	}
	roots := workspace.Options{Root: root, Readable: o.Workspace.Readable, Writable: o.Workspace.Writable,
		Home: h.caller.Home, LookupEnv: h.caller.LookupEnv, DenySensitive: o.Sensitive.Deny, HarmlessNames: o.Sensitive.Harmless}
	ws, err := workspace.New(roots)
	if err != nil {
		return fmt.Errorf("workspace.%w", err)
	}
	owner := facts.LookupOwner(ws, &h.caller)
	h.session, err = session.New(o.Session, session.For{Root: ws.Root(), Temp: o.Workspace.Temp, Owner: owner.ForFiles(), LookupEnv: h.caller.LookupEnv, Logger: h.logger})
	if err != nil {
		return err
	}
	if o.Workspace.Temp {
		// Whose it is to be depends on the workspace's owner.
		if roots.TempAlias, err = h.session.Temp(ctx); err != nil {
			return err
		}
		if ws, err = workspace.New(roots); err != nil {
			return fmt.Errorf("workspace.%w", err)
		}
	}
	ledgers := ""
	if dir := h.caller.StateDir(); dir != "" {
		ledgers = filepath.Join(dir, "stubs")
	}
	h.places = stubs.New(ledgers)
	c := facts.Config{
		Caller: h.caller, Owner: owner, Workspace: ws, Discovered: o.Workspace.Root == "",
		SessionBases: session.Bases(h.session.Base(), h.caller.LookupEnv, owner.HomeDir()),
		ReviewBases:  []string{review.Base(ws.Root())},
		Toolchains:   o.Workspace.Toolchains, Sensitive: o.Sensitive, Env: o.Workspace.Env,
		Stubs: h.places, CommandsWrite: h.commandsWrite, Logger: h.logger,
	}
	for i, p := range o.Workspace.ControlSockets {
		if !filepath.IsAbs(p) {
			return fmt.Errorf("workspace.control_sockets[%d]: %q is not absolute", i, p)
		}
		c.ControlSockets = append(c.ControlSockets, filepath.Clean(p))
	}
	for _, p := range o.Protected {
		resolved, err := filepath.EvalSymlinks(p)
		if err != nil || !filepath.IsAbs(resolved) {
			return fmt.Errorf("protected: %q: it must be an absolute path that exists", p)
		}
		c.Protected = append(c.Protected, resolved)
	}
	if c.Records, err = h.openRecords(); err != nil {
		return err
	}
	c.Programs, c.Reserved = h.engines.Programs(), h.reservedPlaces(owner)
	c.Trusted, c.Engines = h.trustedPaths(c.Records)
	h.machine = facts.New(c)
	return nil
}

// openRecords opens the audit log, and says where this Host keeps its decisions.
func (h *Host) openRecords() (records []facts.Record, err error) {
	if store := h.options.Approvals.Store; store != nil {
		records = append(records, facts.Record{Path: store.Dir(), Attribute: "approvals", What: "what was approved"})
	}
	options := h.options.Audit
	if filepath.IsAbs(options.Path) {
		if options.Path, err = hostpath.Resolve("/", options.Path, func() []string { return WritableDirs(h.options) }); err != nil {
			return nil, view.Invalid("audit.path", err.Error(), "")
		}
	}
	if h.audit, err = audit.New(options); err != nil {
		return nil, err
	}
	if h.audit != nil {
		records = append(records, facts.Record{Path: filepath.Clean(h.options.Audit.Path), Attribute: "audit.path", What: "the audit log", File: true})
	}
	return records, nil
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

// fillIn reads what a program may leave to the library: the only place in which
// that looks at the process's own environment and directory.
func (o *Options) fillIn() (err error) {
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	if !filepath.IsAbs(o.Dir) {
		if o.Dir, err = filepath.Abs(o.Dir); err != nil && !o.EnginesOnly {
			return fmt.Errorf("dir: %w", err)
		}
	}
	if root := o.Workspace.Root; root != "" && root != "~" && !strings.HasPrefix(root, "~/") && !filepath.IsAbs(root) {
		o.Workspace.Root = o.Dir + "/" + root
	}
	return nil
}

func callerOf(o *Options) facts.Caller {
	c := facts.Caller{UID: os.Getuid(), Environ: o.Environ}
	if home, _ := c.LookupEnv("HOME"); filepath.IsAbs(home) {
		c.Home = filepath.Clean(home)
	}
	return c
}

// onlyCaller is a machine of which nothing but the caller is known.
func onlyCaller(c facts.Caller) *facts.Machine {
	return &facts.Machine{Config: facts.Config{Caller: c, Workspace: &workspace.Workspace{}}}
}

// Workspace resolves paths as commands see them: what a command calls /tmp/x is
// the file that ResolveForRead("/tmp/x") finds, if WorkspaceOptions.Temp is set.
// Of what lies in an overlay - an extra readable root, a toolchain - it finds
// the host's file, which a command may have changed for its session.
func (h *Host) Workspace() *workspace.Workspace { return h.machine.Workspace }

// Root is the resolved directory of the workspace.
func (h *Host) Root() string { return h.machine.Workspace.Root() }

// SandboxNames lists the definitions, sorted.
func (h *Host) SandboxNames() []string {
	return slices.Sorted(maps.Keys(h.options.Sandboxes))
}

// target is the sandbox that a command runs in.
type target struct {
	name string
	def  Definition
	// late, for a definition that New was not given, is what sets it apart from all others.
	late string
	// own counts the binds of the definition, which those of one command follow.
	own int
}

// target is the sandbox of that name; "" is the default one.
func (h *Host) target(name string) (target, error) {
	name, def, err := h.definition(name)
	return target{name: name, def: def, own: len(def.BindPaths)}, err
}

// target is the sandbox that the command asks for.
func (c *Cmd) target() (t target, err error) {
	if c.definition != nil {
		t = target{name: lateName(*c.definition), def: *c.definition, own: len(c.definition.BindPaths)}
	} else if t, err = c.host.target(c.sandbox); err != nil {
		return t, err
	}
	if c.Network != nil {
		t.def.Network = *c.Network
	}
	t.def.BindPaths = slices.Concat(t.def.BindPaths, c.BindPaths)
	t.def.Review = cmp.Or(c.Review, t.def.Review)
	named := t.def.Review == NewReview
	if named {
		t.def.Review = c.newReview()
	}
	if c.definition == nil && c.Network == nil && len(c.BindPaths) == 0 && c.Review == "" && !named {
		return t, nil
	}
	if err := c.host.checkDefinition(t.name, t.def); err != nil {
		return t, err
	}
	text, err := json.Marshal(t.def)
	if err != nil {
		return t, &SandboxError{Sandbox: t.name, Err: err}
	}
	t.late = string(text)
	return t, nil
}

// lateName is what a definition is called that has no name. Nothing of it tells the values of
// variables or of the engine's options, which may be secret.
func lateName(def Definition) string {
	def.Config = nil
	def.Env = maps.Clone(def.Env)
	for name := range def.Env {
		def.Env[name] = ""
	}
	text, _ := json.Marshal(def) // where that fails, target says so
	sum := sha256.Sum256(text)
	return "definition-" + hex.EncodeToString(sum[:6])
}

// blame has an error name the field of the command that it comes of.
func (t *target) blame(err error) error {
	e, ok := errors.AsType[*shared.Error](err)
	if !ok || len(t.def.BindPaths) == t.own {
		return err
	}
	number, rest, _ := strings.Cut(strings.TrimPrefix(e.Attribute, "bind_paths["), "]")
	if i, atoi := strconv.Atoi(number); atoi == nil && i >= t.own {
		e.Attribute = fmt.Sprintf("BindPaths[%d]%s", i-t.own, rest)
	}
	return err
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

// Check finds all that can fail before a command is known: the definition, its
// paths, the engine's executable, and, by doing, whether the engine works on
// this machine. An empty name means the default sandbox.
func (h *Host) Check(ctx context.Context, sandbox string) error {
	if h.options.EnginesOnly {
		return errEnginesOnly
	}
	t, err := h.target(sandbox)
	if err != nil {
		return err
	}
	sb, _, err := h.ready(ctx, t)
	sb.release()
	return err
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
// the Host has made. It is idempotent; commands fail with ErrClosed after it, and
// nothing is logged any more. It waits for no command that is being started, nor for longer than a few seconds for
// an engine that hangs or a lock that another process holds.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	defer h.logging.close()
	sandboxes := slices.Collect(maps.Values(h.sandboxes))
	h.mu.Unlock()

	h.endLife()
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	h.machine.Close()
	var errs []error
	for _, slot := range sandboxes {
		if !acquire(ctx, slot.lock) {
			continue // who has it finds the Host closed
		}
		if sb := slot.current; sb != nil && (!sb.engine.HasProcess() || sb.running.Load() > 0) {
			errs = append(errs, sb.close(context.Background())) // the engine closes others as it ends
		}
		errs = append(errs, slot.closeRetired(context.Background(), true))
		slot.current = nil
		<-slot.lock
	}
	ended := h.engines.Close(ctx)
	defer h.reviews.close()
	released := make(chan error, 1)
	go func() {
		h.linger.Close() // no command runs any more, and engines take a moment to end
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
