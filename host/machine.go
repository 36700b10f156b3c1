//go:build unix

package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/sbxhost/sbxhost/internal/audit"
	"github.com/sbxhost/sbxhost/internal/facts"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/internal/review"
	"github.com/sbxhost/sbxhost/internal/sandbox"
	"github.com/sbxhost/sbxhost/internal/session"
	"github.com/sbxhost/sbxhost/internal/stubs"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// running is what a Host needs to run commands.
type running struct {
	machine *facts.Machine
	session *session.Session // nil with EnginesOnly
	audit   *audit.Log       // nil: none
	pool    *sandbox.Pool    // nil until New returns

	life    context.Context // ends with Close
	endLife context.CancelFunc
	closed  atomic.Bool
}

// prepare makes what a Host has before it knows its workspace.
func (h *Host) prepare() {
	h.machine = facts.OnlyCaller(h.caller)
	h.life, h.endLife = context.WithCancel(context.Background())
}

// open finds the workspace, if commands are to run, and makes what runs them.
func (h *Host) open(ctx context.Context) error {
	o := &h.options
	if !o.EnginesOnly {
		if err := h.findWorkspace(ctx); err != nil {
			return err
		}
	}
	h.pool = sandbox.NewPool(sandbox.Config{
		Engines: h.engines, Machine: h.machine, Session: h.session, Life: h.life, Linger: o.Linger, OneShot: o.OneShot, Logger: h.logger, OnLateEvents: h.logUntold, KeepFindings: h.keepFindings,
		Policy: policy.Facts{AllowBypass: o.Approvals.AllowBypass, Mode: o.Approvals.Mode, ModeOrigin: o.Approvals.ModeOrigin},
	})
	return nil
}

// findWorkspace resolves the workspace, and what of it is protected.
func (h *Host) findWorkspace(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			h.session.Close()
		}
	}()
	o := &h.options
	root, dir := o.Workspace.Root, ""
	if root == "" {
		discovered, err := workspace.Discover(o.Dir, h.caller.Home)
		if err != nil {
			return fmt.Errorf("workspace.root: %w", err)
		}
		root, dir = discovered, o.Dir
	}
	roots := workspace.Options{Root: root, Dir: dir, Readable: o.Workspace.Readable, Writable: o.Workspace.Writable,
		Home: h.caller.Home, LookupEnv: h.caller.LookupEnv, DenySensitive: o.HideSensitive, Written: h.writableDir}
	ws, err := workspace.New(roots)
	if err != nil {
		return fmt.Errorf("workspace.%w", err)
	}
	owner := facts.LookupOwner(ws, &h.caller)
	h.session, err = session.New(o.Session, session.Purpose{Root: ws.Root(), Temp: o.Workspace.Temp, Owner: owner.ForFiles(), LookupEnv: h.caller.LookupEnv, Logger: h.logger})
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
	cache, state := "", h.caller.StateDir()
	if state != "" {
		cache = filepath.Join(state, "stubs")
	}
	c := facts.Config{
		Caller: h.caller, Owner: owner, Workspace: ws, Discovered: o.Workspace.Root == "",
		SessionBases: session.Bases(h.session.Base(), h.caller.LookupEnv, owner.HomeDir()),
		ReviewBases:  append(review.Bases(state), review.Base(ws.Root())),
		Credentials:  o.Credentials,
		Toolchains:   o.Workspace.Toolchains, HideSensitive: o.HideSensitive, Env: o.Workspace.Env,
		Stubs: stubs.New(cache), CommandsWrite: h.commandsWrite, Logger: h.logger,
	}
	own := facts.HostPaths{Configs: o.Protected, TrustChecked: o.TrustChecked, EngineDir: o.EngineDir,
		Engines: append(h.engines.Names(), launch.Separate...), Programs: h.engines.Programs(), Sources: h.engines.Sources()}
	if own.Records, err = h.openRecords(); err != nil {
		return err
	}
	if c.HostPaths, err = own.All(&h.caller, owner, o.Dir); err != nil {
		return err
	}
	h.machine = facts.New(c)
	return nil
}

// credentials are those of Options, or what has come in their place.
func (h *Host) credentials() map[string]Credential { return h.machine.Sets() }

// Renew gives credentials other values, for a Host that outlives its tokens. Each command that starts from
// now on gets them. Sets replace Options.Credentials. Where environ has GH_TOKEN or GITHUB_TOKEN, that value
// replaces the one of Options.Environ, for the sets that are built in. With the next command, all that
// runs in a session with processes gets the new values as well; there, a set with other hosts, another
// header or other variables is refused when a command starts.
func (h *Host) Renew(sets map[string]Credential, environ []string) error {
	if err := checkCredentials(sets); err != nil {
		return err
	}
	for name, def := range h.options.Sandboxes {
		if err := h.checkDefinitionWith(name, def, sets); err != nil && h.checkDefinition(name, def) == nil {
			return err
		}
	}
	h.machine.Renew(sets, environ)
	return nil
}

// openRecords opens the audit log, and says where this Host keeps its decisions.
func (h *Host) openRecords() (records []view.HostPath, err error) {
	if store := h.options.Approvals.Store; store != nil {
		records = append(records, view.HostPath{Path: store.Dir(), Attribute: "approvals", Description: "what was approved", Kind: view.OwnRecord})
	}
	path := h.options.AuditLog
	if filepath.IsAbs(path) {
		if path, err = hostpath.Resolve("/", path, func() []string { return WritableDirs(h.options) }); err != nil {
			return nil, view.Invalid("audit.path", err.Error(), "log elsewhere; in Go, this is Options.AuditLog")
		}
	}
	if h.audit, err = audit.New(path); err != nil {
		return nil, err
	}
	if h.audit != nil {
		records = append(records, view.HostPath{Path: filepath.Clean(h.options.AuditLog), Attribute: "audit.path", Description: "the audit log", File: true, Kind: view.OwnRecord})
	}
	return records, nil
}

// Workspace resolves paths as commands see them: what a command calls /tmp/x is
// the file that ResolveForRead("/tmp/x") finds, if WorkspaceOptions.Temp is set.
// Of what lies in an overlay - an extra readable root, a toolchain - it finds
// the host's file, which a command may have changed for its session.
func (h *Host) Workspace() *workspace.Workspace { return h.machine.Workspace }

// Root is the resolved directory of the workspace.
func (h *Host) Root() string { return h.machine.Workspace.Root() }

// Check finds all that can fail before a command is known: the definition, its
// paths, the engine's executable, and, by doing, whether the engine works on
// this machine. An empty name means the default sandbox.
func (h *Host) Check(ctx context.Context, name string) error {
	if h.options.EnginesOnly {
		return sandbox.ErrNoWorkspace
	}
	t, err := h.target(name)
	if err == nil {
		err = h.checkDefinition(t.Name, t.Definition)
	}
	if err != nil {
		return err
	}
	opened, _, err := h.pool.Ready(ctx, t)
	opened.Release()
	return err
}

// Close kills the commands that still run, stops the engines and removes what
// the Host has made. It is idempotent; commands fail with ErrClosed after it, and
// nothing is logged any more. It waits for no command that is being started, nor for longer than a few seconds for
// an engine that hangs or a lock that another process holds.
func (h *Host) Close() error {
	if h.closed.Swap(true) {
		return nil
	}
	defer h.logging.Close(releaseTime)
	h.endLife()
	h.machine.Close()
	return errors.Join(h.pool.Close(releaseTime), h.session.Close())
}

// EngineInfo gives what an engine says of itself, starting it if need be.
func (h *Host) EngineInfo(ctx context.Context, name string) (shared.Info, error) {
	e, err := h.pool.Engine(ctx, name)
	if err != nil {
		return shared.Info{}, err
	}
	return e.Info, nil
}

// EngineProbe finds out whether an engine works on this machine, starting it
// if need be.
func (h *Host) EngineProbe(ctx context.Context, name string) (shared.Probe, error) {
	return h.pool.Probe(ctx, name)
}

// Sessions lists the named sessions of this user, by name. For root these are
// also those that root has made for the owners of workspaces. The environment is
// that of Options.Environ; the directory that of SessionOptions.Dir.
func Sessions(ctx context.Context, environ []string, dir string) ([]SessionInfo, error) {
	return session.List(ctx, facts.NewEnvironment(environ).Lookup, dir)
}

// RemoveSession removes a named session and all that it keeps. It is
// ErrSessionInUse while a process uses it and fs.ErrNotExist if there is none.
func RemoveSession(environ []string, dir, name string) error {
	return session.Remove(facts.NewEnvironment(environ).Lookup, dir, name)
}

// Processes lists what runs in the session, of a definition with Session.Processes, by number: commands, and
// what they have left running.
func (h *Host) Processes() (list []ProcessInfo, err error) {
	for _, pid := range h.engines.Pids() {
		found, err := session.Processes(pid)
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	return list, nil
}

// HasProcesses reports whether something may run in the session, of a definition with
// Session.Processes.
func (h *Host) HasProcesses() bool { return h.pool.HasProcesses() }

// EndProcesses ends what commands have left running in the session. It ends no command: while one
// of those runs it does nothing.
func (h *Host) EndProcesses(ctx context.Context) error { return h.pool.EndProcesses(ctx) }

// sessionOf says which session a sandbox is in.
func (h *Host) sessionOf(opened *sandbox.Open) SessionReport {
	return SessionReport{Name: h.session.Name(), Dir: opened.Resolved.Spec.Session.Dir}
}
