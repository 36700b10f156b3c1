package bwrap

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/shared/holder"
)

// A prepared plan is one in two parts: what a session's holder makes once, and
// what bubblewrap makes for each command, with recursive binds of the former.
type prepared struct {
	steps []holder.Op
	why   []string // of each step
	rest  []op
	late  holder.Late // what the holder adds when bubblewrap has made the rest
}

// region is what one step has put at a path inside: a part of a prepared
// tree, or something that is fresh for each command.
type region struct {
	dest  string
	tree  int    // fresh: negative
	top   string // where the tree begins inside
	fresh bool
}

// worthwhile is how many mounts bubblewrap must be spared before they are made
// late: to wait for the holder costs as much as bubblewrap takes for two or three,
// each of which has it read the table of all.
const worthwhile = 6

// deferred says which steps are made late, if that is worth it: binds on which
// bubblewrap has nothing to mount, and what covers parts of a fresh procfs.
func deferred(ops []op) map[int]bool {
	late, spared := map[int]bool{}, 0
	for i, o := range ops {
		switch {
		case within(o.Dest, "/proc"):
			if o.Kind == opROBind || o.Kind == opMaskFile {
				late[i] = true
				spared++
			}
		case o.movable() && !slices.ContainsFunc(ops[:i], func(above op) bool { return above.movable() && within(o.Dest, above.Dest) }):
			inside := 0
			fresh := slices.ContainsFunc(ops[i+1:], func(below op) bool {
				if !within(below.Dest, o.Dest) {
					return false
				}
				inside++
				return below.Kind == opTmpfs || below.Kind == opProc || below.Kind == opDev
			})
			if !fresh {
				late[i] = true
				spared += inside / 4 // they are only read, or copied
			}
		}
	}
	if spared < worthwhile {
		return nil
	}
	return late
}

// movable reports whether o can be mounted after bubblewrap has made all else: not
// what belongs to the view, nor what lies in /run, which is sealed by then.
func (o op) movable() bool {
	return o.binds() && o.Why != "filesystem" && o.Dest != "/" && !within(o.Dest, "/run")
}

// binds reports whether o shows something that is not made for the one command.
func (o op) binds() bool {
	return o.Kind == opROBind || o.Kind == opBind || o.Kind == opOverlay || o.Kind == opHome
}

// divide takes a plan apart. A fresh procfs, devices and memory are bubblewrap's, and
// so is what lies on them but for binds, which become trees of their own. It is
// pure, and the result shows the same view as the whole plan would. The devices of
// a command with a terminal, which bubblewrap shows among them, are left to it.
func divide(ops []op, terminal bool) prepared {
	var p prepared
	root := region{dest: "/", top: "/"}
	regions := []region{root}
	trees := 1
	add := func(k holder.Kind, dest string, o op) {
		p.steps = append(p.steps, holder.Op{Kind: k, Source: o.Source, Dest: dest, Perms: o.Perms, Size: o.Size})
		p.why = append(p.why, o.Why)
	}
	bind := func(n int, dest, why string) {
		p.rest = append(p.rest, op{Kind: opBind, Source: treePath(n), Dest: dest, Why: why})
	}
	if len(ops) > 0 && ops[0].Kind == opROBind && ops[0].Dest == "/" {
		add(holder.ReadOnlyBind, "/0", ops[0])
		ops = ops[1:]
	} else {
		add(holder.Root, "/0", op{Why: "filesystem"})
	}
	bind(0, "/", "filesystem")

	late := deferred(ops)
	for i, o := range ops {
		at := regionOf(regions, o.Dest)
		inside := "/" + strconv.Itoa(at.tree) + strings.TrimSuffix("/"+strings.TrimPrefix(strings.TrimPrefix(o.Dest, at.top), "/"), "/")
		if late[i] && within(o.Dest, "/proc") {
			k := holder.ReadOnlyBind
			if o.Kind == opMaskFile {
				k = holder.HideFile
			}
			p.late = append(p.late, holder.Op{Kind: k, Dest: o.Dest})
			regions = append(regions, region{dest: o.Dest, fresh: true})
			continue
		}
		switch o.Kind {
		case opROBind, opBind, opOverlay, opHome:
			made := region{dest: o.Dest, tree: at.tree, top: at.top}
			point := ""
			if at.fresh || late[i] {
				made.tree, made.top = trees, o.Dest
				tree := "/" + strconv.Itoa(trees)
				if !at.fresh {
					point = inside
				}
				inside = tree
				if late[i] {
					p.late = append(p.late, holder.Op{Kind: holder.Bind, Source: tree, Dest: o.Dest})
				} else {
					bind(trees, o.Dest, o.Why)
				}
				trees++
			}
			k := map[opKind]holder.Kind{opROBind: holder.ReadOnlyBind, opBind: holder.Bind, opOverlay: holder.Overlay, opHome: holder.Home}[o.Kind]
			if o.Kind == opHome {
				o.Source = o.Dest // what it is known by in the session
			}
			add(k, inside, o)
			if point != "" {
				add(holder.Point, point, op{Source: inside, Why: o.Why})
			}
			regions = append(regions, made)
		case opTmpfs, opProc, opDev:
			if o.Kind == opDev && !terminal && !at.fresh {
				p.rest[0].Kind = opTree
				add(holder.Devices, inside, o)
				add(holder.Terminals, inside+"/pts", o)
				regions = append(regions, region{dest: o.Dest, tree: at.tree, top: at.top})
				continue
			}
			if !at.fresh {
				add(holder.Directory, inside, op{Perms: 0o755, Why: o.Why}) // to mount on
			}
			p.rest = append(p.rest, o)
			regions = append(regions, region{dest: o.Dest, fresh: true})
		default:
			if at.fresh {
				if o.Kind == opMaskFile {
					o.Kind, o.Source = opROBind, holder.Null
				}
				p.rest = append(p.rest, o)
				continue
			}
			add(map[opKind]holder.Kind{
				opSymlink: holder.Symlink, opDir: holder.Directory, opFile: holder.File, opRemountRO: holder.ReadOnly,
				opPin: holder.Pin, opMaskFile: holder.HideFile, opMaskDir: holder.HideDirectory,
			}[o.Kind], inside, o.bare())
		}
	}
	return p
}

// bare is o without the source that the holder does not need.
func (o op) bare() op {
	if o.Kind == opPin {
		o.Source = ""
	}
	return o
}

func treePath(n int) string { return path.Join(holder.Trees, strconv.Itoa(n)) }

func regionOf(regions []region, p string) region {
	for i := len(regions) - 1; ; i-- {
		if within(p, regions[i].dest) {
			return regions[i]
		}
	}
}
