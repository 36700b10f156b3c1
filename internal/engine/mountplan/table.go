package mountplan

import (
	"path"
	"slices"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// table turns the Spec's table, the home directory and the private temporary directories into
// steps, parents first, each at a checked place.
func (p *planner) table() ([]holder.Op, error) {
	ops := make([]holder.Op, 0, len(p.spec.Table)+5)
	taken := map[string]bool{}
	for _, e := range append(slices.Clip(p.spec.Table), p.sockets()...) {
		o, err := p.entry(e)
		if err != nil {
			return nil, err
		}
		if e.Access.Shows() && e.Missing == shared.MissingIgnore {
			if at, err := p.facts.tree.lstat(e.Source); err == nil && at.kind == absent {
				continue
			}
		}
		taken[e.Path] = true
		ops = append(ops, o)
	}
	private := func(dest string, perms uint32, why string) {
		if !taken[dest] {
			taken[dest] = true
			ops = append(ops, holder.Op{Kind: p.temporary(), Dest: dest, Perms: perms, Size: p.tempSize, Why: why})
		}
	}
	private("/tmp", 0o1777, "filesystem")
	if p.ownVarTmp() {
		private("/var/tmp", 0o1777, "filesystem")
	}
	if p.spec.Home != "" {
		private(p.spec.Home, 0o700, "home")
		if last := &ops[len(ops)-1]; p.support.Holder && p.spec.Session.ID != "" && last.Why == "home" {
			last.Kind = holder.Home
		}
	}
	if p.support.Nameserver != "" {
		// The host's own would name unreachable servers, and hosts beyond the rules.
		for dest, text := range map[string]string{
			"/etc/resolv.conf": "nameserver " + p.support.Nameserver + "\n",
			"/etc/hosts":       "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n",
		} {
			ops = append(ops, holder.Op{Kind: holder.Text, Source: text, Dest: dest, Perms: 0o444, Why: "network"})
		}
	}
	return p.settle(ops)
}

// entry is the step of one entry of the table.
func (p *planner) entry(e shared.Entry) (holder.Op, error) {
	o := holder.Op{Kind: holder.ReadOnlyBind, Source: e.Source, Dest: e.Path, Why: e.Why}
	switch e.Access {
	case shared.Hidden:
		o.Kind, o.Ignore = holder.Missing, e.Missing == shared.MissingIgnore
	case shared.ReadWrite:
		o.Kind = holder.Bind
	case shared.Private:
		o.Kind, o.Perms, o.Size = holder.Memory, 0o755, p.tempSize
	case shared.Overlay:
		reason := p.support.NoOverlay(e.Source)
		if reason == "" {
			o.Kind = holder.Overlay
		} else if !e.Degradable {
			return o, &shared.Error{Kind: shared.ErrUnsupported, Attribute: e.Why, Message: "no overlay of " + e.Source + ": " + reason}
		}
	}
	return o, nil
}

// temporary is the kind of memory that commands write to: commands that share processes meet there,
// by sockets and pid files.
func (p *planner) temporary() holder.Kind {
	if p.spec.Session.Processes {
		return holder.Home
	}
	return holder.Memory
}

// ownVarTmp reports whether /var/tmp has a mount of its own. The minimal view saves one with a link
// to /tmp, unless something is mounted in it: a workspace there would have another path inside than
// outside.
func (p *planner) ownVarTmp() bool {
	if p.spec.Filesystem == shared.FilesystemHost {
		return p.facts.varTmp
	}
	return paths.Inside("/var/tmp", p.spec.Home) ||
		slices.ContainsFunc(p.spec.Table, func(e shared.Entry) bool {
			return e.Access != shared.Hidden && e.Path != "/var/tmp" && paths.Inside("/var/tmp", e.Path)
		})
}

// sockets hides the holder's directory, which has a socket in it, in each view of the session's
// directory.
func (p *planner) sockets() (hidden []shared.Entry) {
	if p.spec.Session.Dir == "" {
		return nil
	}
	place := path.Join(p.spec.Session.Dir, holder.Place)
	hide := func(at string) {
		hidden = append(hidden, shared.Entry{Path: at, Access: shared.Hidden, Missing: shared.MissingIgnore, Why: "session"})
	}
	if p.spec.Filesystem == shared.FilesystemHost {
		hide(place)
	}
	for _, e := range p.spec.Table {
		if e.Access.Shows() && paths.Inside(e.Source, place) {
			hide(paths.Move(place, e.Source, e.Path))
		}
	}
	return hidden
}

const (
	tempSizeMax = 4 << 30
	tempSizeMin = 64 << 20
)

// TempSize is the size limit of each private file system, on a machine with this much memory; 0 means
// unknown. With the kernel's default, half of the memory for each, two of them could take all of it.
func TempSize(memory uint64, limits *shared.Limits) uint64 {
	if limits.TempSize > 0 {
		return limits.TempSize
	}
	return max(min(memory/4, tempSizeMax), tempSizeMin)
}
