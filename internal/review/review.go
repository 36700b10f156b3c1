package review

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// Info describes a review.
type Info struct {
	Name    string    `json:"name"`
	Sandbox string    `json:"sandbox"`
	Created time.Time `json:"made"`
	InUse   bool      `json:"in_use"`
	// Applied says that it was applied, as a whole or in part, and that this can be undone.
	Applied  bool      `json:"applied"`
	Complete bool      `json:"whole"` // and that nothing else is in it
	Used     time.Time `json:"used"`
}

// A Set is what a review holds.
type Set struct {
	Changes []Change
	Digest  string

	shown  func(layer int, p string) string
	hidden func(c *Change) bool
	opaque []opaqueDir
}

// Rules say what is not to be changed by a review, and what is made of both sides.
type Rules struct {
	// Denied says why a path of a source may not be changed; "" where it may. It may be nil.
	Denied func(path string) string
	// Above says what lies beneath a path that may not be changed: no symlink of a review takes
	// its place. Obeyed reports whether git acts on a path. Either may be nil.
	Above           func(path string) string
	IsGitControlled func(path string) bool
	// Hidden reports whether a path of a source is kept from commands. It may be nil.
	Hidden func(path string) bool
	// Configurations are those files of git's that commands write to in a review, and that stay as they are.
	Configurations []string
	// Submodules are the gitlinks in the host's indexes: no review makes a .git in one. WorkTrees
	// are those of the host's repositories, by their git directories: no review makes a submodule
	// in one of what has a .git.
	Submodules []string
	WorkTrees  map[string]string
}

// Shown is a path of a change as people know it: relative to the workspace, or absolute.
func (s *Set) Shown(c *Change) string { return s.shown(c.Layer, c.Path) }

// Visible gives the set without the changes at paths that are kept from commands, and how many these
// are. It is for who may see no more than commands do. The digest stays that of all.
func (s *Set) Visible() (seen *Set, unseen int) {
	out := *s
	out.Changes = slices.DeleteFunc(slices.Clone(s.Changes), func(c Change) bool { return s.hidden(&c) })
	return &out, len(s.Changes) - len(out.Changes)
}

// A Choice says what of a review is applied.
type Choice struct {
	Digest string   // of what was looked at; empty: of whatever there is
	Paths  []string // with all that lies in them; empty: everything
	Ours   []string // of which the workspace keeps its own
	Theirs []string // of which the review's counts, whatever the host did since
}

// An Outcome is what an apply did.
type Outcome struct {
	Applied  []Change
	Complete bool // nothing is left in the review
	// Conflicts and Refused are what stood in the way: then nothing was applied.
	Conflicts, Refused []Change
}

// ErrBlocked is wrapped by the error for an apply that something stood in the way of. Nothing was
// changed then.
var ErrBlocked = errors.New("nothing was applied")

// Selects reports whether a change is at one of some paths, as people know them, or lies in one. No
// paths are all there are.
func (s *Set) Selects(paths []string, c *Change) bool {
	return len(paths) == 0 || listed(paths, s.Shown(c))
}

// Concerns reports whether what is chosen by some paths changes this: it is Within them, or a new
// directory above one, which comes with it.
func (s *Set) Concerns(paths []string, c *Change) bool {
	return s.Selects(paths, c) || c.Op == Added && c.New.Kind == Directory &&
		slices.ContainsFunc(paths, func(one string) bool { return under(s.Shown(c), path.Clean(one)) })
}

// holds reports whether something changes in what a change is of.
func (s *Set) holds(i int) bool {
	return i+1 < len(s.Changes) && s.Changes[i+1].Layer == s.Changes[i].Layer && under(s.Changes[i].Path, s.Changes[i+1].Path)
}

// listed reports whether a path is one of a list, or lies in one.
func listed(list []string, p string) bool {
	return slices.ContainsFunc(list, func(dir string) bool { return under(path.Clean(dir), p) })
}

// choose says which changes are applied; whole that none is left.
func (s *Set) choose(choice Choice) (chosen []bool, whole bool, err error) {
	chosen, whole = make([]bool, len(s.Changes)), true
	found := map[string]bool{}
	for i := range s.Changes {
		p := s.Shown(&s.Changes[i])
		for _, list := range [...][]string{choice.Paths, choice.Ours, choice.Theirs} {
			for _, one := range list {
				found[one] = found[one] || under(path.Clean(one), p)
			}
		}
		ours := listed(choice.Ours, p)
		chosen[i] = !ours && s.Selects(choice.Paths, &s.Changes[i])
		whole = whole && (chosen[i] || ours)
	}
	for _, one := range slices.Concat(choice.Paths, choice.Ours, choice.Theirs) {
		if one == "" { // a variable that is not set, rather than everything
			return nil, false, errors.New("an empty path: to apply everything, name none")
		}
		if !found[one] {
			return nil, false, fmt.Errorf("%s: the review changes nothing there", hostpath.Quote(one))
		}
	}
	// A new directory comes with what is chosen of it.
	for i := range s.Changes {
		c := &s.Changes[i]
		if c.Op != Added || c.New.Kind != Directory || chosen[i] {
			continue
		}
		for j := i + 1; j < len(s.Changes) && s.Changes[j].Layer == c.Layer && under(c.Path, s.Changes[j].Path); j++ {
			chosen[i] = chosen[i] || chosen[j]
		}
	}
	return chosen, whole, nil
}
