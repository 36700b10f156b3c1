package mountplan

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/shared"
)

// base returns the steps for the view beneath the table, without those that a step of the table
// replaces.
func (p *planner) base(table []holder.Op) []holder.Op {
	taken := map[string]bool{}
	for _, o := range table {
		if !o.Hides() {
			taken[o.Dest] = true
		}
	}
	ops := slices.Concat(p.system(), p.kernel(), p.facts.links)
	for i := range ops {
		if ops[i].Why == "" {
			ops[i].Why = "filesystem"
		}
	}
	return slices.DeleteFunc(ops, func(o holder.Op) bool { return isIn(taken, o.Dest) })
}

// system are the directories of programs, libraries and settings.
func (p *planner) system() []holder.Op {
	if p.spec.Filesystem == shared.FilesystemHost {
		return []holder.Op{{Kind: holder.ReadOnlyBind, Source: "/", Dest: "/"}}
	}
	ops := slices.Concat(p.facts.roots, p.facts.settings)
	if !p.ownVarTmp() {
		ops = append(ops, holder.Op{Kind: holder.Symlink, Source: "../tmp", Dest: "/var/tmp"})
	}
	return ops
}

// kernel are /proc, /dev, /sys and /run.
func (p *planner) kernel() []holder.Op {
	ops := []holder.Op{{Kind: holder.Processes, Dest: "/proc"}}
	if p.uid == 0 {
		ops = append(ops, p.facts.covers...)
	}
	ops = append(ops,
		holder.Op{Kind: holder.Devices, Dest: "/dev"},
		holder.Op{Kind: p.temporary(), Dest: "/dev/shm", Perms: 0o1777, Size: p.tempSize})
	for i, device := range p.spec.Devices {
		ops = append(ops, holder.Op{Kind: holder.Device, Source: device, Dest: device, Why: fmt.Sprintf("devices[%d]", i)})
	}
	ops = append(ops,
		holder.Op{Kind: holder.ReadOnly, Dest: "/dev", Why: "no unlimited memory"})
	switch {
	case p.spec.Filesystem != shared.FilesystemHost:
		ops = append(append(ops, p.run()...),
			holder.Op{Kind: holder.Symlink, Source: "../run", Dest: "/var/run"},
			holder.Op{Kind: holder.Symlink, Source: "../run/lock", Dest: "/var/lock"})
		ops = append(ops, p.facts.sys...)
	case p.facts.run:
		ops = append(append(ops, p.run()...), p.facts.resolv...)
	}
	return ops
}

// runSize is for sockets, locks and pid files, in bytes.
const runSize = 64 << 20

// run is a /run of the sandbox's own, with the directories that a machine makes at its start and in
// which programs make files.
func (p *planner) run() []holder.Op {
	return []holder.Op{
		{Kind: p.temporary(), Dest: "/run", Perms: 0o755, Size: min(p.tempSize, runSize)},
		{Kind: holder.Directory, Dest: "/run/lock", Perms: 0o1777},
		{Kind: holder.Directory, Dest: "/run/postgresql", Perms: 0o755},
		{Kind: holder.Directory, Dest: "/run/user", Perms: 0o755},
		{Kind: holder.Directory, Dest: "/run/user/" + strconv.FormatUint(uint64(p.uid), 10), Perms: 0o700},
	}
}
