package mountplan

import (
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// Steps are what a holder makes, each with the reason for it.
type Steps struct {
	Ops []holder.Op
	Why []string
}

func (s *Steps) add(k holder.Kind, source, dest string, o Op) {
	s.Ops = append(s.Ops, holder.Op{Kind: k, Source: source, Dest: dest, Perms: o.Perms, Size: o.Size})
	s.Why = append(s.Why, o.Why)
}

// region is what one step has put at a path inside: a part of a prepared
// tree, or something that is fresh for each command.
type region struct {
	tree  int
	top   string // where the tree begins inside
	fresh bool
}

// Halves are a plan in two parts: the tree, which all commands share, and what each
// command has for itself.
type Halves struct{ Tree, Own Steps }

// Halve takes a plan apart. What is fresh for each command, as memory and a procfs are,
// is the sandbox's own, and so is what lies on it but for binds: those become trees of
// their own. So is an overlay of which each command has its own, as own says. It is pure, and the result shows the
// same view as the whole plan would.
func Halve(ops []Op, terminal, own bool) Halves {
	var h Halves
	var regions strata[region]
	regions.put("/", region{top: "/"})
	trees := 1
	if len(ops) > 0 && ops[0].Kind == ROBind && ops[0].Dest == "/" {
		h.Tree.add(holder.ReadOnlyBind, ops[0].Source, "/0", ops[0])
		ops = ops[1:]
	} else {
		h.Tree.add(holder.Root, "", "/0", Op{Why: "filesystem"})
	}
	for _, o := range ops {
		at := regions.cover(o.Dest).of
		dest := "/0" + o.Dest
		inside := "/" + strconv.Itoa(at.tree) + strings.TrimSuffix("/"+strings.TrimPrefix(strings.TrimPrefix(o.Dest, at.top), "/"), "/")
		switch o.Kind {
		case ROBind, Bind, Overlay, Home, Shell:
			switch {
			case o.Kind == Overlay && own:
				if !at.fresh {
					h.Tree.add(holder.Directory, "", inside, Op{Perms: 0o755, Why: o.Why}) // to mount on
				}
				h.Own.add(holder.OwnOverlay, o.Source, dest, o)
				regions.put(o.Dest, region{fresh: true})
			case !at.fresh:
				h.Tree.add(kindOf[o.Kind], o.named(), inside, o)
				regions.put(o.Dest, at)
			case o.Kind == ROBind && paths.Inside("/proc", o.Dest):
				h.Own.add(holder.Seal, "", dest, o)
			default:
				tree := "/" + strconv.Itoa(trees)
				h.Tree.add(kindOf[o.Kind], o.named(), tree, o)
				h.Own.add(holder.Graft, tree, dest, Op{Why: o.Why})
				regions.put(o.Dest, region{tree: trees, top: o.Dest})
				trees++
			}
		case Tmpfs, Proc:
			if !at.fresh {
				h.Tree.add(holder.Directory, "", inside, Op{Perms: 0o755, Why: o.Why}) // to mount on
			}
			h.Own.add(kindOf[o.Kind], "", dest, o)
			regions.put(o.Dest, region{fresh: true})
		case Dev:
			if terminal {
				o.Size = 1
				h.Own.add(holder.Console, "", dest+"/console", Op{Why: o.Why})
			}
			h.Tree.add(holder.Devices, "", inside, o)
			h.Tree.add(holder.Directory, "", inside+"/pts", Op{Perms: 0o755, Why: o.Why})
			h.Own.add(holder.Pseudoterminals, "", dest+"/pts", Op{Why: o.Why})
			regions.put(o.Dest, at)
		default:
			if at.fresh {
				h.Own.add(kindOf[o.Kind], o.named(), dest, o)
			} else {
				h.Tree.add(kindOf[o.Kind], o.named(), inside, o)
			}
		}
	}
	return h
}

// kindOf are the holder's steps for those of a plan.
var kindOf = map[Kind]holder.Kind{
	ROBind: holder.ReadOnlyBind, Bind: holder.Bind, Overlay: holder.Overlay, Home: holder.Home, Shell: holder.Memory,
	Tmpfs: holder.Memory, Proc: holder.Processes, Dev: holder.Devices, Device: holder.Device,
	Symlink: holder.Symlink, Dir: holder.Directory, File: holder.File, Text: holder.Text, RemountRO: holder.ReadOnly,
	Pin: holder.Pin, MaskFile: holder.HideFile, MaskDir: holder.HideDirectory,
}

// named gives the source by which the holder knows what a step shows.
func (o Op) named() string {
	switch o.Kind {
	case Home:
		return o.Dest
	case Pin:
		return ""
	}
	return o.Source
}
