package mountplan

import (
	"path"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/paths"
	"github.com/sbxhost/sbxhost/shared/holder"
)

// A Prepared plan is one in two parts: what a session's holder makes once, and
// what bubblewrap makes for each command, with recursive binds of the former.
type Prepared struct {
	Steps []holder.Op
	Why   []string // of each step
	Rest  []Op
	Late  holder.Late // what the holder adds when bubblewrap has made the rest
}

// region is what one step has put at a path inside: a part of a prepared
// tree, or something that is fresh for each command.
type region struct {
	tree  int    // fresh: negative
	top   string // where the tree begins inside
	fresh bool
	own   bool // memory of the holder's: no command can lead away what is mounted in it
}

// worthwhile is how many mounts bubblewrap must be spared before they are made
// late: to wait for the holder costs as much as bubblewrap takes for two or three,
// each of which has it read the table of all.
const worthwhile = 6

// Crowded reports whether a plan has so many steps that a holder is worth its start,
// some 20 ms, where there is no session: bubblewrap reads the table of all mounts
// for each that it makes, and so takes ten seconds for 3,000.
func Crowded(ops []Op) bool { return len(ops) > 300 }

// deferred says which steps are made late, if that is worth it: binds on which
// bubblewrap has nothing to mount, and what covers parts of a fresh procfs. Of binds
// in one another it is the outermost; what lies in a bind follows it.
func deferred(ops []Op) map[int]bool {
	late, spared, outermost := map[int]bool{}, 0, ""
	sealed, shells := map[string]bool{"/run": true}, map[string]bool{}
	for _, o := range ops {
		if o.Kind == Shell {
			shells[o.Dest] = true
		} else if o.Kind == RemountRO && o.Dest != "/" && !shells[o.Dest] {
			sealed[o.Dest] = true
		}
	}
	for i, o := range ops {
		switch {
		case paths.Inside("/proc", o.Dest):
			if o.Kind == ROBind || o.Kind == MaskFile {
				late[i] = true
				spared++
			}
		case o.movable(sealed) && (outermost == "" || !paths.Inside(outermost, o.Dest)):
			outermost = o.Dest
			inside, fresh := 0, false
			for _, below := range ops[i+1:] {
				if !paths.Inside(o.Dest, below.Dest) {
					break
				}
				inside++
				fresh = fresh || below.Kind == Tmpfs || below.Kind == Proc || below.Kind == Dev
			}
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
// what belongs to the view, nor what lies in memory that is sealed by then.
func (o Op) movable(sealed map[string]bool) bool {
	if !o.binds() || o.Why == "filesystem" || o.Dest == "/" {
		return false
	}
	for dir := range paths.Up(o.Dest) {
		if sealed[dir] {
			return false
		}
	}
	return true
}

// binds reports whether o shows something that is not made for the one command. A
// shell is read-only, so that commands can share it.
func (o Op) binds() bool {
	return o.Kind == ROBind || o.Kind == Bind || o.Kind == Overlay || o.Kind == Home || o.Kind == Shell
}

// Divide takes a plan apart. A fresh procfs, devices and memory are bubblewrap's, and
// so is what lies on them but for binds, which become trees of their own. It is
// pure, and the result shows the same view as the whole plan would. The devices of
// a command with a terminal, which bubblewrap shows among them, are left to it.
func Divide(ops []Op, terminal bool) Prepared {
	var p Prepared
	var regions strata[region]
	trees := 1
	add := func(k holder.Kind, dest string, o Op) {
		p.Steps = append(p.Steps, holder.Op{Kind: k, Source: o.Source, Dest: dest, Perms: o.Perms, Size: o.Size})
		p.Why = append(p.Why, o.Why)
	}
	bind := func(n int, dest, why string) {
		p.Rest = append(p.Rest, Op{Kind: Bind, Source: treePath(n), Dest: dest, Why: why})
	}
	if len(ops) > 0 && ops[0].Kind == ROBind && ops[0].Dest == "/" {
		add(holder.ReadOnlyBind, "/0", ops[0])
		ops = ops[1:]
	} else {
		add(holder.Root, "/0", Op{Why: "filesystem"})
	}
	regions.put("/", region{top: "/", own: p.Steps[0].Kind == holder.Root})
	bind(0, "/", "filesystem")

	late := deferred(ops)
	for i, o := range ops {
		at := regions.cover(o.Dest).of
		o.Asked = o.Asked && !at.fresh && !at.own
		inside := "/" + strconv.Itoa(at.tree) + strings.TrimSuffix("/"+strings.TrimPrefix(strings.TrimPrefix(o.Dest, at.top), "/"), "/")
		if late[i] && paths.Inside("/proc", o.Dest) {
			k := holder.ReadOnlyBind
			if o.Kind == MaskFile {
				k = holder.HideFile
			}
			p.Late = append(p.Late, holder.Op{Kind: k, Dest: o.Dest})
			regions.put(o.Dest, region{fresh: true})
			continue
		}
		switch o.Kind {
		case ROBind, Bind, Overlay, Home, Shell:
			made := region{tree: at.tree, top: at.top, own: o.Kind == Shell && (at.fresh || at.own)}
			point := ""
			if at.fresh || late[i] {
				made.tree, made.top = trees, o.Dest
				tree := "/" + strconv.Itoa(trees)
				if !at.fresh {
					point = inside
				}
				inside = tree
				if late[i] {
					p.Late = append(p.Late, holder.Op{Kind: holder.Bind, Source: tree, Dest: o.Dest})
				} else {
					bind(trees, o.Dest, o.Why)
				}
				trees++
			}
			k := map[Kind]holder.Kind{ROBind: holder.ReadOnlyBind, Bind: holder.Bind, Overlay: holder.Overlay, Home: holder.Home, Shell: holder.Memory}[o.Kind]
			if o.Kind == Home {
				o.Source = o.Dest // what it is known by in the session
			}
			add(k, inside, o)
			if point != "" {
				add(holder.Point, point, Op{Source: inside, Why: o.Why})
			}
			regions.put(o.Dest, made)
		case Tmpfs, Proc, Dev:
			if o.Kind == Dev && !terminal && !at.fresh {
				p.Rest[0].Kind = Tree
				add(holder.Devices, inside, o)
				add(holder.Terminals, inside+"/pts", o)
				regions.put(o.Dest, region{tree: at.tree, top: at.top})
				continue
			}
			if !at.fresh {
				add(holder.Directory, inside, Op{Perms: 0o755, Why: o.Why}) // to mount on
			}
			p.Rest = append(p.Rest, o)
			regions.put(o.Dest, region{fresh: true})
		default:
			if at.fresh {
				if o.Kind == MaskFile {
					o.Kind, o.Source = ROBind, holder.Null
				}
				p.Rest = append(p.Rest, o)
				continue
			}
			add(map[Kind]holder.Kind{
				Symlink: holder.Symlink, Dir: holder.Directory, File: holder.File, RemountRO: holder.ReadOnly,
				Pin: holder.Pin, MaskFile: holder.HideFile, MaskDir: holder.HideDirectory,
			}[o.Kind], inside, o.bare())
		}
	}
	return p
}

// bare is o without the source that the holder does not need.
func (o Op) bare() Op {
	if o.Kind == Pin {
		o.Source = ""
	}
	return o
}

func treePath(n int) string { return path.Join(holder.Trees, strconv.Itoa(n)) }
