package plan

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

// Checked returns what a container shows, after a look at the host: the daemon, as root, would
// follow or make paths that a command, or nobody, has put there. It refuses an entry that shows the
// daemon's own socket.
func (p *Planner) Checked(socket string) ([]shared.Entry, error) {
	if resolved, err := filepath.EvalSymlinks(socket); err == nil {
		socket = resolved
	}
	own := map[string]bool{}
	for _, e := range p.Spec.Table {
		own[e.Path] = true
		if e.Access.Shows() && paths.Inside(e.Source, socket) {
			return nil, &shared.Error{Kind: shared.ErrDenied, Attribute: e.Why,
				Message: fmt.Sprintf("%q shows the Docker daemon's socket %q, with which a command could do anything to this machine", e.Source, socket),
				Hint:    "bind less"}
		}
	}
	view, err := cmdengine.View(p.Spec, "")
	if err != nil {
		return nil, err
	}
	// The planner has its own modes and sizes for the private directories.
	return slices.DeleteFunc(view, func(e shared.Entry) bool { return e.Access == shared.Private && !own[e.Path] }), nil
}
