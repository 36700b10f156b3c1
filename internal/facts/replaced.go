//go:build unix

package facts

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// Watched is a file or directory of the host that a mount hides or protects
// while a command runs. The kernel takes a mount away when somebody outside of the
// sandbox removes what it lies on, or renames something else over it - as editors
// do to save a file, and git to change its configuration. Nothing can put it
// back into a sandbox that runs.
type Watched struct {
	path, loss, why string // a sentence's parts: there may be thousands, and none is needed
	dev, ino        uint64
}

// Watch notes what is hidden and protected from a command at its start.
// What the engine does not protect is left out.
func (r *Resolved) Watch(have shared.Features) (list []Watched) {
	hostPath := view.HostPaths(r.Spec.Table)
	list = make([]Watched, 0, len(r.Spec.Table))
	for i := range r.Spec.Table {
		e := &r.Spec.Table[i]
		loss := "was not hidden"
		if e.Access == shared.ReadOnly && strings.HasPrefix(e.Why, "protected: ") && have.Has(shared.FeatureNested) {
			loss = "could be written"
		} else if e.Access != shared.Hidden {
			continue
		}
		at := hostPath(e)
		at = cmp.Or(r.Copies[at], at)
		if dev, ino, err := inode(at); err == nil && at != "" {
			list = append(list, Watched{at, loss, strings.TrimPrefix(e.Why, "protected: "), dev, ino})
		}
	}
	return list
}

// Replaced gives a sentence for each that is not what it was.
func Replaced(list []Watched) (notes []string) {
	for _, w := range list {
		dev, ino, err := inode(w.path)
		if err == nil && dev == w.dev && ino == w.ino {
			continue
		}
		note := fmt.Sprintf("%s was removed or replaced from outside while the command ran; from then on it %s (%s)", w.path, w.loss, w.why)
		if errors.Is(err, fs.ErrPermission) { // a command can change the mode of a directory of its own
			note = fmt.Sprintf("%s cannot be searched any more: whether what is protected there was replaced while the command ran is not known", filepath.Dir(w.path))
		}
		if !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return notes
}

func inode(p string) (dev, ino uint64, err error) {
	var st syscall.Stat_t
	err = syscall.Lstat(p, &st)
	return uint64(st.Dev), st.Ino, err
}

// maxNotes is how many notes a command is told with. A command can make a hundred
// thousand links of which each is worth one.
const maxNotes = 50

// FewNotes is the beginning of too many, and says how many more there are.
func FewNotes(notes []string) []string {
	if len(notes) <= maxNotes {
		return notes
	}
	return append(slices.Clip(notes[:maxNotes]), fmt.Sprintf("and %d notes more, which explain lists", len(notes)-maxNotes))
}
