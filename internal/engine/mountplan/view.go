package mountplan

import (
	"path"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// strata is a map by path inside in which what was put last at a path, or above
// it, covers what was put there before. A lookup costs as much as a path has names.
type strata[T any] struct {
	at map[string]stratum[T]
	n  int
}

type stratum[T any] struct {
	dest  string
	order int // from 1 on; later is over earlier
	of    T
}

func (s *strata[T]) put(dest string, of T) {
	if s.at == nil {
		s.at = map[string]stratum[T]{}
	}
	s.n++
	s.at[dest] = stratum[T]{dest, s.n, of}
}

// cover is what p lies in, of order 0 where that is nothing.
func (s *strata[T]) cover(p string) stratum[T] {
	top := stratum[T]{dest: "/"}
	for dir := range paths.Up(p) {
		top = s.over(top, dir)
	}
	return top
}

// over is the cover of p, of whose directory it is known.
func (s *strata[T]) over(dir stratum[T], p string) stratum[T] {
	if own, ok := s.at[p]; ok && own.order > dir.order {
		return own
	}
	return dir
}

// A view is the tree inside as far as it is planned: layers, the later over
// the earlier. It answers where a path inside leads, without following a
// symlink that a command could have planted.
type view struct {
	tree   tree
	layers strata[layer]
	// ways are the directories that lead to layers: to which one last.
	ways map[string]int
	// writable are the host's directories that commands can write to, at
	// whatever place inside.
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
	fresh    layerKind = iota // memory, empty but for further layers
	bound                     // a path of the host
	linked                    // a symlink of the view's own
	freshDoc                  // a file of the view's own
)

// add records what o makes.
func (v *view) add(o Op) {
	l := layer{source: o.Source, hides: o.hides()}
	switch o.Kind {
	case ROBind, Bind, Overlay:
		l.kind = bound
	case Symlink:
		l.kind = linked
	case File, Text, MaskFile:
		l.kind = freshDoc
	case RemountRO, Hide:
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
	kind      kind   // what is there; absent when it would have to be made
	viewEntry bool   // whether it is one of the view's own links or entries of /etc and /var, which a mount replaces
	host      string // the host's path of it; empty when it is not the host's
}

// plantedLinkError is the error for a symlink that a command could have made.
type plantedLinkError struct{ link string }

func (e *plantedLinkError) Error() string { return "goes through the symlink " + e.link }

// locate walks p through the view. With trust, p itself may be a symlink within a
// writable directory: of what is going to be hidden, what that leads to is. A
// directory on the way may be none: a command could have put it there for just this
// moment, and what lies beneath the real one would be seen.
func (v *view) locate(p string, trust bool) (place, error) {
	at, in := "/", v.layers.cover("/") // what the walk has come to
	host := ""                         // of what is missing
	end, there, err := paths.Follow("/", p, func(next string, more bool) (paths.Step, error) {
		if dir := path.Dir(next); dir != at {
			in = v.layers.cover(dir) // a symlink has led elsewhere
		}
		l := v.layers.over(in, next)
		at, in = next, l
		switch l.of.kind {
		case linked:
			// A mount on the link itself takes its place.
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
			case e.kind == symlink && (more || !trust) && v.isWritable(on):
				return paths.Step{}, &plantedLinkError{next}
			}
			return paths.Step{Target: e.target}, nil
		case fresh:
			return paths.Step{Missing: l.dest != next && v.ways[next] <= l.order}, nil
		}
		return paths.Step{}, nil
	})
	if err != nil {
		return place{}, err
	}
	if !there {
		return place{path: end, host: host}, nil
	}
	return v.at(end)
}

// at describes a path without symlinks that exists inside.
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
	case freshDoc:
		pl.kind = file
	default:
		pl.kind = directory
	}
	return pl, nil
}

func (v *view) isWritable(host string) bool {
	for dir := range paths.Up(host) {
		if v.writable[dir] {
			return true
		}
	}
	return false
}
