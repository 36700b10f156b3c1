//go:build unix

package host

import (
	"context"

	"github.com/sbxhost/sbxhost/host/facts"
	"github.com/sbxhost/sbxhost/host/session"
	"github.com/sbxhost/sbxhost/shared"
)

// Sessions lists the named sessions of this user, by name. For root these are
// also those that root has made for the owners of workspaces. The environment is
// that of Options.Environ; the directory that of SessionOptions.Dir.
func Sessions(ctx context.Context, environ []string, dir string) ([]SessionInfo, error) {
	return session.List(ctx, (&facts.Caller{Environ: environ}).LookupEnv, dir)
}

// RemoveSession removes a named session and all that it keeps. It is
// ErrSessionInUse while a process uses it and fs.ErrNotExist if there is none.
func RemoveSession(environ []string, dir, name string) error {
	return session.Remove((&facts.Caller{Environ: environ}).LookupEnv, dir, name)
}

// sessionOf says which session a sandbox is in.
func (h *Host) sessionOf(opened *openSandbox) SessionReport {
	return SessionReport{Name: h.session.Name(), Dir: opened.resolved.Spec.Session.Dir}
}

// overlaysOf lists where what is written lasts for the session.
func overlaysOf(spec *shared.Spec) []string {
	var list []string
	for _, m := range spec.Table {
		if m.Access == shared.Overlay && m.Degradable && !spec.Unconfined { // a review's is kept
			list = append(list, m.Path)
		}
	}
	return list
}
