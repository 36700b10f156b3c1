package mountplan

import (
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// Steps are a holder's steps, each with its reason.
type Steps struct {
	Ops []holder.Op
	Why []string
}

func (s *Steps) add(k holder.Kind, source, dest string, o Op) {
	s.Ops = append(s.Ops, holder.Op{Kind: k, Source: source, Dest: dest, Perms: o.Perms, Size: o.Size})
	s.Why = append(s.Why, o.Why)
}

// region is what one step puts at a path inside: a part of a prepared tree, or something fresh for
// each command.
type region struct {
	tree  int
	top   string // where the tree begins inside
	fresh bool
}

// Halves are a plan in two parts: the tree, which all commands share, and what each command has for
// itself.
type Halves struct{ Shared, Command Steps }

// Halve splits a plan. What is fresh for each command, such as memory and a procfs, belongs to the
// sandbox, and so does what lies on it, except binds, which become trees of their own. With own,
// each command has its own overlays too. It is pure, and both halves together show the same view as
// the whole plan.
func Halve(ops []Op, terminal, own bool) Halves {
	var h Halves
	var regions strata[region]
	regions.put("/", region{top: "/"})
	trees := 1
	if len(ops) > 0 && ops[0].Kind == ROBind && ops[0].Dest == "/" {
		h.Shared.add(holder.ReadOnlyBind, ops[0].Source, "/0", ops[0])
		ops = ops[1:]
	} else {
		h.Shared.add(holder.Root, "", "/0", Op{Why: "filesystem"})
	}
	for _, o := range ops {
		at := regions.cover(o.Dest).of
		dest := "/0" + o.Dest
		inside := "/" + strconv.Itoa(at.tree) + strings.TrimSuffix("/"+strings.TrimPrefix(strings.TrimPrefix(o.Dest, at.top), "/"), "/")
		switch o.Kind {
		case ROBind, Bind, Overlay, Home, MountpointTmpfs:
			switch {
			case o.Kind == Overlay && own:
				if !at.fresh {
					h.Shared.add(holder.Directory, "", inside, Op{Perms: 0o755, Why: o.Why}) // to mount on
				}
				h.Command.add(holder.OwnOverlay, o.Source, dest, o)
				regions.put(o.Dest, region{fresh: true})
			case !at.fresh:
				h.Shared.add(kindOf[o.Kind], o.sourceName(), inside, o)
				regions.put(o.Dest, at)
			case o.Kind == ROBind && paths.Inside("/proc", o.Dest):
				h.Command.add(holder.Seal, "", dest, o)
			default:
				tree := "/" + strconv.Itoa(trees)
				h.Shared.add(kindOf[o.Kind], o.sourceName(), tree, o)
				h.Command.add(holder.Move, tree, dest, Op{Why: o.Why})
				regions.put(o.Dest, region{tree: trees, top: o.Dest})
				trees++
			}
		case Tmpfs, Proc:
			if !at.fresh {
				h.Shared.add(holder.Directory, "", inside, Op{Perms: 0o755, Why: o.Why}) // to mount on
			}
			h.Command.add(kindOf[o.Kind], "", dest, o)
			regions.put(o.Dest, region{fresh: true})
		case Dev:
			if terminal {
				o.Size = 1
				h.Command.add(holder.Console, "", dest+"/console", Op{Why: o.Why})
			}
			h.Shared.add(holder.Devices, "", inside, o)
			h.Shared.add(holder.Directory, "", inside+"/pts", Op{Perms: 0o755, Why: o.Why})
			h.Command.add(holder.Pseudoterminals, "", dest+"/pts", Op{Why: o.Why})
			regions.put(o.Dest, at)
		default:
			if at.fresh {
				h.Command.add(kindOf[o.Kind], o.sourceName(), dest, o)
			} else {
				h.Shared.add(kindOf[o.Kind], o.sourceName(), inside, o)
			}
		}
	}
	return h
}

// kindOf maps a plan's steps to the holder's.
var kindOf = map[Kind]holder.Kind{
	ROBind: holder.ReadOnlyBind, Bind: holder.Bind, Overlay: holder.Overlay, Home: holder.Home, MountpointTmpfs: holder.Memory,
	Tmpfs: holder.Memory, Proc: holder.Processes, Dev: holder.Devices, Device: holder.Device,
	Symlink: holder.Symlink, Dir: holder.Directory, File: holder.File, Text: holder.Text, RemountRO: holder.ReadOnly,
	Pin: holder.Pin, MaskFile: holder.HideFile, MaskDir: holder.HideDirectory,
}

// sourceName is the holder's source for what a step shows.
func (o Op) sourceName() string {
	switch o.Kind {
	case Home:
		return o.Dest
	case Pin:
		return ""
	}
	return o.Source
}
