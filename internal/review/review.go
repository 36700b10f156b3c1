package review

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// Info describes a review.
type Info struct {
	Name    string    `json:"name"`
	Sandbox string    `json:"sandbox"`
	Created time.Time `json:"made"`
	InUse   bool      `json:"in_use"`
	// Applied says that it was applied, completely or in part, and that this can be undone.
	Applied  bool      `json:"applied"`
	Complete bool      `json:"whole"` // as Applied, and nothing else is in it
	Used     time.Time `json:"used"`
}

// A Set is the content of a review.
type Set struct {
	Digest  string   `json:"digest"`
	Changes []Change `json:"changes"`

	opaque  []opaqueDir
	visible bool // see Visible
}

// Rules say what a review may not change, and how to treat both sides.
type Rules struct {
	// Denied says why a path of a source may not be changed; "" if it may.
	Denied func(path string, directory bool) string
	// Behind says why a symlink of a source may not lead to end; "" if it may.
	Behind func(link, end string) string
	// IsGitControlled reports whether git acts on a path, and Hidden whether commands cannot see one of
	// a source.
	IsGitControlled, Hidden func(path string) bool
	// Configurations are those files of git that commands write to in a review, and that stay
	// unchanged.
	Configurations []string
	// Submodules are the gitlinks in the host's indexes: no review may make a .git in one.
	Submodules []string
}

// Visible returns the set without changes at paths that commands cannot see, and the number of
// those, for a reader that may see no more than commands. The digest stays that of all.
func (s *Set) Visible() (seen *Set, unseen int) {
	out := *s
	out.visible = true
	out.Changes = slices.DeleteFunc(slices.Clone(s.Changes), func(c Change) bool { return c.hidden })
	return &out, len(s.Changes) - len(out.Changes)
}

// A Choice chooses what to apply of a review. Its paths can be quoted, as [Change.Line] and JSON have
// them.
type Choice struct {
	Digest string   // of the set that somebody looked at; empty: any
	Paths  []string // with all that they contain; empty: everything
	Ours   []string // paths at which the workspace keeps its own
	Theirs []string // paths at which the review wins, whatever the host did since
}

// An Outcome is the result of an apply.
type Outcome struct {
	Applied  []Change
	Complete bool // nothing is left in the review
	// Conflicts and Refused prevented the apply: then nothing was applied.
	Conflicts, Refused []Change
}

// ErrBlocked is wrapped by the error for an apply that something prevented. Nothing was changed.
var ErrBlocked = errors.New("nothing was applied")

// IsIn reports whether a change is at, or in, one of some paths, as people know them. Without paths
// it is.
func (c *Change) IsIn(paths []string) bool { return len(paths) == 0 || listed(paths, c.Shown) }

// Concerns reports whether a choice of paths includes this change: it is at or in one of them, or a
// new directory above one, which comes along.
func (c *Change) Concerns(paths []string) bool {
	return c.IsIn(paths) || c.makesDirectory() &&
		anyMeans(paths, func(p string) bool { return under(c.Shown, p) })
}

func (c *Change) makesDirectory() bool { return c.Old.Kind != Directory && c.New.Kind == Directory }

// endOf returns the end of the changes in the directory of a change, which follow it.
func endOf(changes []Change, i int) int {
	end := i + 1
	for end < len(changes) && changes[end].layer == changes[i].layer && under(changes[i].path, changes[end].path) {
		end++
	}
	return end
}

// listed reports whether a path is in a list, or in a directory of it.
func listed(list []string, p string) bool {
	return anyMeans(list, func(dir string) bool { return under(dir, p) })
}

// anyMeans reports whether a text of a list can mean a path like that.
func anyMeans(list []string, like func(p string) bool) bool {
	return slices.ContainsFunc(list, func(text string) bool { return slices.ContainsFunc(meanings(text), like) })
}

// meanings are the paths that a text can mean: this one and, if it is quoted as in a list of changes,
// the other.
func meanings(text string) []string {
	list := []string{path.Clean(text)}
	if p, err := strconv.Unquote(text); err == nil && text[0] == '"' && p != "" {
		list = append(list, path.Clean(p))
	}
	return list
}

// choose chooses the changes; whole says that it chose all.
func (s *Set) choose(choice Choice) (chosen []bool, whole bool, err error) {
	chosen, whole = make([]bool, len(s.Changes)), true
	named, found := slices.Concat(choice.Paths, choice.Ours, choice.Theirs), map[string][2]bool{}
	for i := range s.Changes {
		p := s.Changes[i].Shown
		for _, one := range named {
			of := found[one]
			for j, dir := range meanings(one) {
				of[j] = of[j] || under(dir, p)
			}
			found[one] = of
		}
		ours := listed(choice.Ours, p)
		chosen[i] = !ours && s.Changes[i].IsIn(choice.Paths)
		whole = whole && (chosen[i] || ours)
	}
	for _, one := range named {
		if one == "" { // an unset variable, perhaps, which must not mean everything
			return nil, false, errors.New("an empty path: to apply everything, name none")
		}
		switch found[one] {
		case [2]bool{}:
			return nil, false, fmt.Errorf("%s: the review changes nothing there", hostpath.Quote(one))
		case [2]bool{true, true}:
			return nil, false, fmt.Errorf("%s: it can mean two paths of the review; ./ before it means the one with the quotes", hostpath.Quote(one))
		}
	}
	// A new directory comes with its chosen contents.
	for i := range s.Changes {
		if c := &s.Changes[i]; c.makesDirectory() && !chosen[i] {
			chosen[i] = slices.Contains(chosen[i+1:endOf(s.Changes, i)], true)
		}
	}
	return chosen, whole, nil
}
