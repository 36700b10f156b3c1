package mountplan

import (
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// region is what one step puts at a path inside: a part of a prepared tree, or something fresh for
// each command.
type region struct {
	tree  int
	top   string // where the tree begins inside
	fresh bool
}

// Halves are a plan in two parts: the tree, which all commands share, and what each command has for
// itself.
type Halves struct{ Shared, Command []holder.Op }

// Halve splits a plan. Memory and procfs, which are fresh for each command, belong to the command's
// half, and so do the steps on them, except binds, which become trees of their own. With own, each
// command has its own overlays too. Halve is pure, and both halves together show the same view as
// the whole plan.
func Halve(ops []holder.Op, terminal, own bool) Halves {
	root := holder.Op{Kind: holder.Root, Dest: "/0", Why: "filesystem"}
	if len(ops) > 0 && ops[0].Kind == holder.ReadOnlyBind && ops[0].Dest == "/" {
		root, ops = ops[0], ops[1:]
		root.Dest = "/0"
	}
	h := Halves{Shared: []holder.Op{root}}
	var regions strata[region]
	regions.put("/", region{top: "/"})
	trees := 1
	for _, o := range ops {
		switch o.Kind {
		case holder.Home:
			o.Source = o.Dest
		case holder.Pin:
			o.Source = ""
		}
		at, inside := regions.cover(o.Dest).of, o.Dest
		dest := "/0" + inside
		common := o // in the tree
		common.Dest = "/" + strconv.Itoa(at.tree) + strings.TrimSuffix("/"+strings.TrimPrefix(strings.TrimPrefix(inside, at.top), "/"), "/")
		o.Dest = dest
		point := holder.Op{Kind: holder.Directory, Dest: common.Dest, Perms: 0o755, Why: o.Why} // to mount on
		if o.Kind == holder.Overlay && own {
			o.Kind = holder.OwnOverlay
		}
		switch o.Kind {
		case holder.ReadOnlyBind, holder.Bind, holder.Overlay, holder.Home, holder.MountPoints:
			switch {
			case !at.fresh:
				h.Shared = append(h.Shared, common)
				regions.put(inside, at)
			case o.Kind == holder.ReadOnlyBind && paths.Inside("/proc", inside):
				h.Command = append(h.Command, holder.Op{Kind: holder.Seal, Dest: dest, Why: o.Why})
			default:
				common.Dest = "/" + strconv.Itoa(trees)
				h.Shared = append(h.Shared, common)
				h.Command = append(h.Command, holder.Op{Kind: holder.Move, Source: common.Dest, Dest: dest, Why: o.Why})
				regions.put(inside, region{tree: trees, top: inside})
				trees++
			}
		case holder.Memory, holder.Processes, holder.OwnOverlay:
			if !at.fresh {
				h.Shared = append(h.Shared, point)
			}
			h.Command = append(h.Command, o)
			regions.put(inside, region{fresh: true})
		case holder.Devices:
			if terminal {
				common.Size = 1
				h.Command = append(h.Command, holder.Op{Kind: holder.Console, Dest: dest + "/console", Why: o.Why})
			}
			point.Dest += "/pts"
			h.Shared = append(h.Shared, common, point)
			h.Command = append(h.Command, holder.Op{Kind: holder.Pseudoterminals, Dest: dest + "/pts", Why: o.Why})
			regions.put(inside, at)
		default:
			if at.fresh {
				h.Command = append(h.Command, o)
			} else {
				h.Shared = append(h.Shared, common)
			}
		}
	}
	return h
}
