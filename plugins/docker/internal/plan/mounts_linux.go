package plan

import (
	"cmp"
	"io/fs"
	"path"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/engine/mountplan"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// Mounts are the mounts that the init checks. The daemon mounts by path: another command could lead
// a mount away, or have it show something else.
func (p *Plan) Mounts() (list []sandboxinit.Mount, err error) {
	view := make([]shared.Entry, len(p.Ops))
	for i, o := range p.Ops {
		view[i] = shared.Entry{Path: o.Destination, Source: o.Source, Access: shared.Private}
		if o.Source != "" {
			view[i].Access = shared.ReadOnly
		}
	}
	cover := shared.Covers(view)
	for _, o := range p.Ops {
		_, around := cover(path.Dir(o.Destination))
		if paths.Inside(OwnDir, o.Destination) || o.Source == "" && around == "" {
			continue // among the image's files, which no other command can change
		}
		m := sandboxinit.Mount{Path: o.Destination, Linked: around == ""}
		info, err := mountplan.Lstat(cmp.Or(o.Source, path.Join(around, path.Base(o.Destination))))
		switch {
		case o.Op == "mask" && (err != nil || info.Mode()&fs.ModeSymlink != 0):
			continue // the runtime omits what is missing, and hides what a symlink leads to
		case err != nil:
			return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: o.Why, Message: err.Error()}
		case o.Source != "":
			source := info.Sys().(*syscall.Stat_t)
			m.Dev, m.Ino = source.Dev, source.Ino
		}
		list = append(list, m)
	}
	return list, nil
}
