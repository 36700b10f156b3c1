package mountplan

import (
	"slices"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// base gives the steps for what lies beneath the table, without those that a
// step of it takes the place of.
func (p *planner) base(table []Op) []Op {
	taken := map[string]bool{}
	for _, o := range table {
		if !o.hides() {
			taken[o.Dest] = true
		}
	}
	ops := slices.Concat(p.system(), p.kernel(), p.facts.links)
	for i := range ops {
		if ops[i].Why == "" {
			ops[i].Why = "filesystem"
		}
	}
	return slices.DeleteFunc(ops, func(o Op) bool {
		for dir := range paths.Up(o.Dest) {
			if taken[dir] {
				return true
			}
		}
		return false
	})
}

// system are the directories of programs, libraries and settings.
func (p *planner) system() []Op {
	if p.spec.Filesystem == shared.FilesystemHost {
		return []Op{{Kind: ROBind, Source: "/", Dest: "/"}}
	}
	ops := slices.Concat(p.facts.roots, p.facts.etc)
	if !p.ownVarTmp() {
		ops = append(ops, Op{Kind: Symlink, Source: "../tmp", Dest: "/var/tmp"})
	}
	return ops
}

// kernel are /proc, /dev and /run.
func (p *planner) kernel() []Op {
	ops := []Op{{Kind: Proc, Dest: "/proc"}}
	if p.uid == 0 {
		ops = append(ops, p.facts.covers...)
	}
	ops = append(ops,
		Op{Kind: Dev, Dest: "/dev"},
		Op{Kind: p.temporary(), Dest: "/dev/shm", Perms: 0o1777, Size: p.tempSize},
		Op{Kind: RemountRO, Dest: "/dev", Why: "no uncapped memory"})
	switch {
	case p.spec.Filesystem != shared.FilesystemHost:
		ops = append(ops, Op{Kind: Dir, Dest: "/run", Perms: 0o755})
	case p.facts.run:
		ops = append(append(ops, Op{Kind: Tmpfs, Dest: "/run", Perms: 0o755, Size: p.tempSize}), p.facts.resolv...)
	}
	return ops
}

// seal makes read-only what had to be writable while the mount points in it
// were made: it is memory without a cap.
func (p *planner) seal(table []Op) []Op {
	const why = "no uncapped memory"
	if p.spec.Filesystem != shared.FilesystemHost {
		return []Op{{Kind: RemountRO, Dest: "/", Why: why}}
	}
	if !p.facts.run || slices.ContainsFunc(table, func(o Op) bool { return o.Dest == "/run" }) {
		return nil
	}
	return []Op{{Kind: RemountRO, Dest: "/run", Why: why}}
}
