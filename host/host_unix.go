//go:build unix

package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/sbxhost/sbxhost/internal/approvals"
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

type hostParts struct {
	machine *facts.Machine
	session *session.Session // nil with EnginesOnly
	audit   *audit.Log       // nil: none
	pool    *sandbox.Pool    // nil until New returns

	life    context.Context // ends with Close
	endLife context.CancelFunc
	closed  atomic.Bool
}

// prepare makes the parts of a Host that do not depend on the workspace.
func (h *Host) prepare() {
	h.machine = facts.OnlyCaller(h.caller)
	h.life, h.endLife = context.WithCancel(context.Background())
}

// open resolves the workspace, if commands are to run, and prepares to run them.
func (h *Host) open() error {
	o := &h.options
	if !o.EnginesOnly {
		if err := h.findWorkspace(); err != nil {
			return err
		}
	}
	h.pool = sandbox.NewPool(sandbox.Config{
		Engines: h.engines, Machine: h.machine, Session: h.session, Life: h.life, Linger: o.Linger, OneShot: o.OneShot, Logger: h.logger, OnLateEvents: h.logLateConnections, KeepFindings: h.keepFindings,
		Policy: policy.Facts{AllowBypass: o.Approvals.AllowBypass, Mode: o.Approvals.Mode, ModeOrigin: o.Approvals.ModeOrigin},
	})
	return nil
}

// findWorkspace resolves the workspace, and what is protected in it.
func (h *Host) findWorkspace() (err error) {
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
		Home: h.caller.Home, LookupEnv: h.caller.LookupEnv, Written: h.writableDir}
	ws, err := workspace.New(roots)
	if err != nil {
		return fmt.Errorf("workspace.%w", err)
	}
	owner := facts.LookupOwner(ws, &h.caller)
	h.session, err = session.New(o.Session, session.Purpose{Root: ws.Root(), Temp: o.Workspace.Temp, Owner: owner.ForFiles(), LookupEnv: h.caller.LookupEnv, Writable: func() []string { return WritableDirs(h.options) }, Logger: h.logger})
	if err != nil {
		return err
	}
	if o.Workspace.Temp {
		// The owner of /tmp depends on the workspace's owner.
		if roots.TempAlias, err = h.session.Temp(); err != nil {
			return err
		}
		if ws, err = workspace.New(roots); err != nil {
			return fmt.Errorf("workspace.%w", err)
		}
	}
	c := facts.Config{
		Caller: h.caller, Owner: owner, Workspace: ws, Discovered: o.Workspace.Root == "",
		SessionBases: session.Bases(h.session.Base(), h.caller.LookupEnv, owner.HomeDir()),
		ReviewBases:  append(review.Bases(h.caller.StateDir()), review.Base(ws.Root())),
		Credentials:  o.Credentials,
		Toolchains:   o.Workspace.Toolchains, HideSensitive: o.HideSensitive, Env: o.Workspace.Env,
		Stubs: stubs.New(), Written: h.writableDir,
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

// credentials are those of Options, or the latest that Renew set.
func (h *Host) credentials() map[string]Credential { return h.machine.Sets() }

// Renew replaces the values of credentials, for a Host that lives longer than its tokens. Every
// later command gets the new ones. Sets replace Options.Credentials. For built-in sets, GH_TOKEN
// and GITHUB_TOKEN of environ replace those of Options.Environ. Start refuses a command whose
// definition is invalid with the new sets. In a session with processes, the running processes get the
// new values when the next command starts; there, Start refuses a set with other hosts, another header
// or other variables.
func (h *Host) Renew(sets map[string]Credential, environ []string) error {
	if err := checkCredentials(sets); err != nil {
		return err
	}
	h.machine.Renew(sets, environ)
	return nil
}

// openRecords opens the audit log, and returns the paths of this Host's records.
func (h *Host) openRecords() (records []view.HostPath, err error) {
	if dir := h.options.Approvals.Dir; dir != "" {
		records = append(records, view.HostPath{Path: dir, Attribute: "approvals", Description: "what was approved", Kind: view.HostState})
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
		records = append(records, view.HostPath{Path: filepath.Clean(h.options.AuditLog), Attribute: "audit.path", Description: "the audit log", File: true, Kind: view.HostState})
	}
	return records, nil
}

// Workspace has the roots of the workspace. With WorkspaceOptions.Temp, its TempAlias is the
// directory that commands call /tmp.
func (h *Host) Workspace() *workspace.Workspace { return h.machine.Workspace }

// Root is the resolved directory of the workspace.
func (h *Host) Root() string { return h.machine.Workspace.Root() }

// Check finds all errors that need no command: those of the definition, its paths and the engine's
// executable. It also tries whether the engine works here. An empty name means the default sandbox.
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

// Close kills running commands, stops the engines and removes the Host's files. It is idempotent.
// Later commands fail with ErrClosed, and nothing more is logged. It does not wait for a command
// that is starting, and only a few seconds for an engine that hangs or for a lock of another
// process.
func (h *Host) Close() error {
	if h.closed.Swap(true) {
		return nil
	}
	defer h.logging.Close(releaseTime)
	h.endLife()
	h.machine.Close()
	return errors.Join(h.pool.Close(releaseTime), h.session.Close())
}

// EngineInfo returns an engine's description of itself. It starts the engine if necessary.
func (h *Host) EngineInfo(ctx context.Context, name string) (shared.Info, error) {
	e, err := h.pool.Engine(ctx, name)
	if err != nil {
		return shared.Info{}, err
	}
	return e.Info, nil
}

// EngineProbe finds out whether an engine works on this machine. It starts the engine if necessary.
func (h *Host) EngineProbe(ctx context.Context, name string) (shared.Probe, error) {
	return h.pool.Probe(ctx, name)
}

// Sessions lists this user's named sessions, by name; for root, also those that root made for
// owners of workspaces. environ is as Options.Environ, and dir as SessionOptions.Dir.
func Sessions(ctx context.Context, environ []string, dir string) ([]SessionInfo, error) {
	return session.List(ctx, facts.NewEnvironment(environ).Lookup, dir)
}

// RemoveSession removes a named session and its files. It returns ErrSessionInUse while a process
// uses it, and fs.ErrNotExist if there is none.
func RemoveSession(environ []string, dir, name string) error {
	return session.Remove(facts.NewEnvironment(environ).Lookup, dir, name)
}

// Processes lists, by number, the processes in the session of a definition with Session.Processes:
// commands, and processes that they left running.
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

// HasProcesses reports whether processes may run in the session of a definition with
// Session.Processes.
func (h *Host) HasProcesses() bool { return h.pool.HasProcesses() }

// EndProcesses ends what commands left running in the session. While a command runs there, it does
// nothing.
func (h *Host) EndProcesses(ctx context.Context) error { return h.pool.EndProcesses(ctx) }

// sessionOf returns the session of a sandbox.
func (h *Host) sessionOf(opened *sandbox.Handle) SessionReport {
	return SessionReport{Name: h.session.Name(), Dir: h.session.Shown(opened.Resolution.Spec.Session.Dir)}
}

// keepFindings adds a command's findings to the list. It returns why it could not.
func (h *Host) keepFindings(made *facts.Changes) string {
	list := made.Findings()
	if h.options.Approvals.Dir == "" || len(list) == 0 {
		return ""
	}
	err := h.store().AddFindings(context.Background(), list, facts.StillPresent)
	if err != nil && !errors.Is(err, approvals.ErrTampered) { // such as root's store in the home of a user, which Findings reports
		return "cannot write the list of what commands made: " + err.Error()
	}
	return ""
}
