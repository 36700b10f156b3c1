package host

import (
	"context"

	"github.com/sbxhost/sbxhost/host/session"
	"github.com/sbxhost/sbxhost/shared"
)

// SessionOptions say what commands share.
type SessionOptions = session.Options

// SessionInfo describes a named session that there is.
type SessionInfo = session.Info

// Sessions lists the named sessions of this user, by name. For root these are
// also those that root has made for the owners of workspaces. The environment is
// that of Options.Environ; the directory that of SessionOptions.Dir.
func Sessions(ctx context.Context, environ []string, dir string) ([]SessionInfo, error) {
	return session.List(ctx, caller{environ: environ}.lookupEnv, dir)
}

// RemoveSession removes a named session and all that it keeps. It is
// ErrSessionInUse while a process uses it and fs.ErrNotExist if there is none.
func RemoveSession(environ []string, dir, name string) error {
	return session.Remove(caller{environ: environ}.lookupEnv, dir, name)
}

// resolve resolves a definition in the Host's session.
func (h *Host) resolve(ctx context.Context, name string, def Definition, unconfined bool) (*resolved, error) {
	r := h.resolver
	if unconfined {
		r.unisolated = func(Definition) bool { return true }
	}
	at(ctx, "it waited for the lock of its session")
	for write := false; ; write = true {
		state, err := h.session.Get(ctx, session.Reach(&def), write)
		if err != nil {
			return nil, err
		}
		if r.session = state.Session; !r.unconfined(def) {
			r.sessionHome = state.Home // elsewhere it is the caller's
		}
		at(ctx, "the workspace was searched")
		out, err := r.resolve(ctx, name, def)
		switch {
		case err != nil:
			return nil, &SandboxError{Sandbox: name, Err: err}
		case out.WantsSession && !write:
			continue // one that is made on demand
		}
		if state.Note != "" {
			out.notes = append(out.notes, state.Note)
		}
		if err := session.Prepare(&out.spec); err != nil {
			return nil, &SandboxError{Sandbox: name, Err: err}
		}
		return out, nil
	}
}

// sessionOf says which session a sandbox is in.
func (h *Host) sessionOf(opened *openSandbox) SessionReport {
	return SessionReport{Name: h.session.Name(), Dir: opened.resolved.spec.Session.Dir}
}

// overlaysOf lists where what is written lasts for the session.
func overlaysOf(spec *shared.Spec) []string {
	var list []string
	for _, m := range spec.Table {
		if m.Access == shared.Overlay && !spec.Unconfined {
			list = append(list, m.Path)
		}
	}
	return list
}
