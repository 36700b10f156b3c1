package bwrap

import (
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// A view is the tree inside as far as it is planned: layers, the later over
// the earlier. It answers where a path inside leads, without following a
// symlink that a command could have planted.
type view struct {
	tree   tree
	layers []layer
	// writable are the host's directories that commands can write to, at
	// whatever place inside.
	writable []string
	// covers and ways remember what cover and leadsTo have found, once nothing is
	// added any more. Nil remembers nothing.
	covers map[string]layer
	ways   map[string]bool
}

// A layer is what one op puts at a path.
type layer struct {
	dest string
	kind layerKind
	// source is the host's path of a bind and the text of a symlink.
	source string
}

type layerKind uint8

const (
	fresh    layerKind = iota // memory, empty but for further layers
	bound                     // a path of the host
	linked                    // a symlink of the view's own
	freshDoc                  // a file of the view's own
)

// add records what o makes.
func (v *view) add(o op) {
	l := layer{dest: o.Dest, source: o.Source}
	switch o.Kind {
	case opROBind, opBind, opOverlay:
		l.kind = bound
	case opSymlink:
		l.kind = linked
	case opFile, opMaskFile:
		l.kind = freshDoc
	case opRemountRO:
		return
	}
	v.layers = append(v.layers, l)
}

// cover is the topmost layer that p lies in.
func (v *view) cover(p string) layer {
	if l, ok := v.covers[p]; ok {
		return l
	}
	l := v.topmost(p)
	if v.covers != nil {
		v.covers[p] = l
	}
	return l
}

func (v *view) topmost(p string) layer {
	for _, l := range slices.Backward(v.layers) {
		if within(p, l.dest) && !v.hidden(l) {
			return l
		}
	}
	return layer{dest: "/"}
}

// hidden reports whether a later layer lies over l as a whole.
func (v *view) hidden(l layer) bool {
	for _, over := range slices.Backward(v.layers) {
		if over == l {
			return false
		}
		if over.dest != l.dest && within(l.dest, over.dest) {
			return true
		}
	}
	return false
}

// A place is where a path inside leads.
type place struct {
	path string // without symlinks
	kind kind   // what is there; absent when it would have to be made
	own  bool   // whether it is one of the view's own links or entries of /etc, which a mount replaces
	host string // the host's path of it; empty when it is not the host's
}

// planted is the error for a symlink that a command could have made.
type planted struct{ link string }

func (e *planted) Error() string { return "goes through the symlink " + e.link }

// locate walks p through the view. With trust, symlinks within writable
// directories are followed, too: right for what is going to be hidden, where
// a followed link can only hide more.
func (v *view) locate(p string, trust bool) (place, error) {
	return v.walk("/", split(p), trust)
}

// walk goes on from cur, a directory without symlinks in its path.
func (v *view) walk(cur string, rest []string, trust bool) (place, error) {
	links := 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			cur = path.Dir(cur)
			continue
		}
		next := path.Join(cur, name)
		l := v.cover(next)
		target := ""
		switch l.kind {
		case linked:
			// A mount on the link itself takes its place.
			if l.dest == next && (trust || len(rest) > 0) {
				target = l.source
			}
		case bound:
			host := path.Join(l.source, strings.TrimPrefix(next, l.dest))
			if l.dest == next {
				break
			}
			e, err := v.tree.lstat(host)
			if err != nil {
				return place{}, err
			}
			if e.kind == absent {
				return place{path: path.Join(append([]string{next}, rest...)...), host: host}, nil
			}
			if e.kind == symlink {
				if !trust && v.isWritable(host) {
					return place{}, &planted{next}
				}
				target = e.target
			}
		case fresh:
			if l.dest != next && !v.leadsTo(next) {
				return place{path: path.Join(append([]string{next}, rest...)...)}, nil
			}
		}
		if target == "" {
			cur = next
			continue
		}
		if links++; links > maxLinks {
			return place{}, &shared.Error{Kind: shared.ErrInvalidSpec, Message: "goes through too many symlinks"}
		}
		if strings.HasPrefix(target, "/") {
			cur = "/"
		}
		rest = slices.Concat(split(target), rest)
	}
	return v.at(cur)
}

// locateIn is locate with trust that remembers, in dirs, where directories lead.
func (v *view) locateIn(dirs map[string]place, p string) (place, error) {
	dir, name := path.Split(p)
	if name == "" || name == "." || name == ".." {
		return v.locate(p, true)
	}
	in, ok := dirs[dir]
	if !ok {
		var err error
		if in, err = v.locate(dir, true); err != nil {
			return place{}, err
		}
		dirs[dir] = in
	}
	if in.kind != directory {
		return v.locate(p, true)
	}
	return v.walk(in.path, []string{name}, true)
}

// at describes a path without symlinks that exists inside.
func (v *view) at(p string) (place, error) {
	l := v.cover(p)
	pl := place{path: p, own: l.dest == p && (l.kind == linked || within(p, "/etc"))}
	switch l.kind {
	case bound:
		pl.host = path.Join(l.source, strings.TrimPrefix(p, l.dest))
		e, err := v.tree.lstat(pl.host)
		if err != nil {
			return place{}, err
		}
		pl.kind = e.kind
	case freshDoc:
		pl.kind = file
	default:
		pl.kind = directory
	}
	return pl, nil
}

// leadsTo reports whether p is a directory that is made on the way to a layer.
func (v *view) leadsTo(p string) bool {
	leads, ok := v.ways[p]
	if !ok {
		leads = slices.ContainsFunc(v.layers, func(l layer) bool { return within(l.dest, p) && !v.hidden(l) })
		if v.ways != nil {
			v.ways[p] = leads
		}
	}
	return leads
}

func (v *view) isWritable(host string) bool {
	return slices.ContainsFunc(v.writable, func(dir string) bool { return within(host, dir) })
}
