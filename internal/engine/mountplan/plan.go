package mountplan

import (
	"slices"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// Plan returns the steps for the view of a sandbox's commands, in order. It reads the host only
// through f, often repeatedly, and changes nothing.
func Plan(f *Facts, h *Support, spec *shared.Spec) ([]holder.Op, error) {
	p := planner{facts: f, support: h, spec: spec, tempSize: TempSize(f.memory, &spec.Limits), uid: f.uid}
	if spec.User != nil {
		p.uid = spec.User.UID
	}
	table, err := p.table()
	if err != nil {
		return nil, err
	}
	for i := range table {
		table[i].FromSpec = true
	}
	ops := slices.Concat(p.base(table), table)
	if spec.Filesystem != shared.FilesystemHost {
		// It had to be writable for mount points, and its size has no limit.
		ops = append(ops, holder.Op{Kind: holder.ReadOnly, Dest: "/", Why: "no unlimited memory"})
	}
	return ops, bounded(ops)
}

// Bounds of a plan, because commands can make paths that must be hidden: so many steps take about a
// second, and a message to a holder has space for so many bytes of paths.
const (
	maxSteps     = 8000
	maxStepBytes = 4 << 20
)

// bounded refuses a plan of too many steps, and names the directory with most of them: a command
// can make directories faster than anybody finds them.
func bounded(ops []holder.Op) error {
	size := 0
	for _, o := range ops {
		size += len(o.Source) + len(o.Dest)
	}
	if len(ops) <= maxSteps && size <= maxStepBytes {
		return nil
	}
	dests := make([]string, len(ops))
	for i, o := range ops {
		dests[i] = o.Dest
	}
	dir, n := hostpath.MostIn(dests)
	return Invalid("deny_paths", "remove what is not needed there, or hide a directory as a whole by its name in deny_paths",
		"hiding and protecting needs %d mounts with %d bytes of paths, more than %d or %d; %d of them are in %s",
		len(ops), size, maxSteps, maxStepBytes, n, hostpath.Quote(dir))
}

type planner struct {
	facts    *Facts
	support  *Support
	spec     *shared.Spec
	uid      uint32
	tempSize uint64
}

// mountPointsSize is only for the mount points in a hidden directory.
const mountPointsSize = 64 << 10

// pinned adds the pins of the directories above a step.
func pinned(ops []holder.Op) []holder.Op {
	table := make([]shared.Entry, len(ops))
	for i, o := range ops {
		table[i] = shared.Entry{Path: o.Dest, Source: o.Source, Access: shared.Private, Why: o.Why}
		switch o.Kind {
		case holder.ReadOnlyBind:
			table[i].Access = shared.ReadOnly
		case holder.Bind:
			table[i].Access = shared.ReadWrite
		case holder.Overlay:
			table[i].Access = shared.Overlay
		}
	}
	for _, pin := range shared.Pins(table) {
		ops = append(ops, holder.Op{Kind: holder.Pin, Source: pin.Source, Dest: pin.Path, Why: pin.Why})
	}
	slices.SortFunc(ops, func(a, b holder.Op) int { return paths.Compare(a.Dest, b.Dest) })
	// A step that hides a directory cannot have mount points. If some are needed, the step becomes
	// memory, which a last step makes read-only.
	for i, n := 0, len(ops); i+1 < n; i++ {
		if o := &ops[i]; o.Kind == holder.HideDirectory && paths.Inside(o.Dest, ops[i+1].Dest) {
			o.Kind, o.Perms, o.Size = holder.MountPoints, 0o755, mountPointsSize
			ops = append(ops, holder.Op{Kind: holder.ReadOnly, Dest: o.Dest, Why: o.Why})
		}
	}
	return ops
}
