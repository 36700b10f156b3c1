//go:build unix

package facts

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// WatchedPath is a file or directory of the host that a mount hides or protects while a command runs, or
// a directory in which it writes: what it makes in one that was renamed is found by nobody.
// The kernel removes a mount when somebody outside of the sandbox removes its mount point, or
// renames another file over it, as editors do to save a file, and git to change its configuration.
// Nothing can restore the mount in a running sandbox.
type WatchedPath struct {
	path, loss, why string // parts of a sentence, which is seldom needed: there may be thousands of paths
	was             unix.Stat_t
}

// unprotects is the loss of a protection, and unmakes that of a directory with what a command makes.
const (
	unprotects = "could be written"
	unmakes    = "did not have what the command made"
)

// Watch records what is hidden and protected from a command at its start, without what the engine
// does not protect, and where it can write.
func (r *Resolution) Watch(have shared.Features) (list []WatchedPath) {
	hostPath := view.HostPaths(r.Spec.Table)
	list = make([]WatchedPath, 0, len(r.Spec.Table))
	for i := range r.Spec.Table {
		e := &r.Spec.Table[i]
		loss := "was not hidden"
		switch {
		case e.Access == shared.ReadOnly && strings.HasPrefix(e.Why, "protected: ") && have.Has(shared.FeatureNested):
			loss = unprotects
		case e.Access == shared.ReadWrite && e.Why != view.OriginHome && e.Why != view.OriginTemp && Follow(e.Source).Kind == view.Directory:
			loss = unmakes
		case e.Access != shared.Hidden:
			continue
		}
		at := hostPath(e)
		at = cmp.Or(r.Copies[at], at)
		if was, err := hostpath.Lstat(at); err == nil {
			list = append(list, WatchedPath{at, loss, strings.TrimPrefix(e.Why, "protected: "), was})
		}
	}
	return list
}

// Replaced returns a sentence for each path that was replaced.
func Replaced(list []WatchedPath) (notes []string) {
	for _, w := range list {
		is, err := w.replaced()
		if !is {
			continue
		}
		note := fmt.Sprintf("%s was removed or replaced from outside while the command ran; from then on it %s (%s)", w.path, w.loss, w.why)
		for dir := filepath.Dir(w.path); err != nil; dir = filepath.Dir(dir) {
			if _, err = os.Lstat(dir + "/."); err != nil { // mostly renamed: then the mounts in it hold. A command can change the mode of its own
				note = fmt.Sprintf("%s was renamed or removed, or cannot be searched any more: a hidden or protected path in it may have been replaced while the command ran", dir)
			}
		}
		if !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return notes
}

// replaced reports whether the file is not there any more.
func (w *WatchedPath) replaced() (bool, error) {
	is, err := hostpath.Lstat(w.path)
	return is.Dev != w.was.Dev || is.Ino != w.was.Ino, err
}
