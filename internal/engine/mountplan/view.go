package mountplan

import (
	"path"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// strata is a map by path inside in which a later value at a path, or above it, covers earlier
// ones. The cost of a lookup is the number of names in the path.
type strata[T any] struct {
	at map[string]stratum[T]
	n  int
}

type stratum[T any] struct {
	dest  string
	order int // from 1 on; a later one is over an earlier one
	of    T
}

func (s *strata[T]) put(dest string, of T) {
	if s.at == nil {
		s.at = map[string]stratum[T]{}
	}
	s.n++
	s.at[dest] = stratum[T]{dest, s.n, of}
}

// cover is what covers p; its order is 0 if nothing does.
func (s *strata[T]) cover(p string) stratum[T] {
	top := stratum[T]{dest: "/"}
	for dir := range paths.Up(p) {
		top = s.over(top, dir)
	}
	return top
}

// over is the cover of p, from the cover of its directory.
func (s *strata[T]) over(dir stratum[T], p string) stratum[T] {
	if own, ok := s.at[p]; ok && own.order > dir.order {
		return own
	}
	return dir
}

// A view is the planned tree inside: layers, a later one over earlier ones. It finds where a path
// inside leads, without following a symlink that a command could have planted.
type view struct {
	tree   tree
	layers strata[layer]
	// ways are the directories that lead to layers, with the latest one.
	ways map[string]int
	// writable are the host's directories that commands can write to, at any path inside.
	writable map[string]bool
}

func newView(t tree) *view {
	return &view{tree: t, ways: map[string]int{}, writable: map[string]bool{}}
}

// A layer is what one op puts at a path.
type layer struct {
	kind layerKind
	// source is the host's path of a bind and the text of a symlink.
	source string
	hides  bool
}

type layerKind uint8

const (
	fresh     layerKind = iota // memory, empty except for further layers
	bound                      // a path of the host
	linked                     // a symlink of the view's own
	freshFile                  // a file of the view's own
)

// add records what o makes.
func (v *view) add(o holder.Op) {
	l := layer{source: o.Source, hides: o.Hides()}
	switch o.Kind {
	case holder.ReadOnlyBind, holder.Bind, holder.Overlay:
		l.kind = bound
	case holder.Symlink:
		l.kind = linked
	case holder.File, holder.Text, holder.HideFile:
		l.kind = freshFile
	case holder.ReadOnly, holder.Missing:
		return
	}
	v.layers.put(o.Dest, l)
	for dir := range paths.Up(path.Dir(o.Dest)) {
		v.ways[dir] = v.layers.n
	}
}

// A place is where a path inside leads.
type place struct {
	path      string // without symlinks
	kind      kind   // what is there; absent if it must be made
	viewEntry bool   // it is one of the view's own links or entries of /etc and /var, which a mount replaces
	host      string // the host's path of it; may be empty
}

// plantedLinkError is the error for a symlink that a command could have made.
type plantedLinkError struct{ link string }

func (e *plantedLinkError) Error() string { return "goes through the symlink " + e.link }

// locate walks p through the view. With trust, p itself may be a symlink in a writable directory:
// to hide it is to hide its target. A directory on the way may not: a command could have put a link
// there at this moment, and the contents of the real directory would show.
func (v *view) locate(p string, trust bool) (place, error) {
	at, in := "/", v.layers.cover("/") // where the walk is
	host := ""                         // of a missing path
	end, there, err := paths.Follow("/", p, func(next string, more bool) (paths.Step, error) {
		if dir := path.Dir(next); dir != at {
			in = v.layers.cover(dir) // a symlink led elsewhere
		}
		l := v.layers.over(in, next)
		at, in = next, l
		switch l.of.kind {
		case linked:
			// A mount on the link itself replaces it.
			if l.dest == next && (trust || more) {
				return paths.Step{Target: l.of.source}, nil
			}
		case bound:
			if l.dest == next {
				break
			}
			on := paths.Move(next, l.dest, l.of.source)
			e, err := v.tree.lstat(on)
			switch {
			case err != nil:
				return paths.Step{}, err
			case e.kind == absent:
				host = on
				return paths.Step{Missing: true}, nil
			case e.kind == symlink && (more || !trust) && isIn(v.writable, on):
				return paths.Step{}, &plantedLinkError{next}
			}
			return paths.Step{Target: e.target}, nil
		case fresh:
			return paths.Step{Missing: l.dest != next && v.ways[next] <= l.order}, nil
		}
		return paths.Step{}, nil
	}, nil)
	if err != nil {
		return place{}, err
	}
	if !there {
		return place{path: end, host: host}, nil
	}
	return v.at(end)
}

// at describes an existing path inside without symlinks.
func (v *view) at(p string) (place, error) {
	l := v.layers.cover(p)
	pl := place{path: p, viewEntry: l.dest == p && (l.of.kind == linked || paths.InsideAny([]string{"/etc", "/var"}, p))}
	switch l.of.kind {
	case bound:
		pl.host = paths.Move(p, l.dest, l.of.source)
		e, err := v.tree.lstat(pl.host)
		if err != nil {
			return place{}, err
		}
		pl.kind = e.kind
	case freshFile:
		pl.kind = file
	default:
		pl.kind = directory
	}
	return pl, nil
}

// isIn reports whether a path, or a directory above it, is in a set.
func isIn(set map[string]bool, p string) bool {
	for dir := range paths.Up(p) {
		if set[dir] {
			return true
		}
	}
	return false
}
