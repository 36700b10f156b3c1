package holder

import (
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/paths"
)

// mend puts back what protects and hides paths, where removing a mount point
// has taken the mount away. What holds the place of a path that does not exist
// is made for each command and removed after it: to make the whole tree again
// each time would cost more than all else that a command needs.
//
// It does so only where nothing is left of the mount, and nothing was mounted
// beneath or over it; all else is for a new tree. Commands that run have copies
// of the tree, which this does not change. After false, the tree must not be
// used.
func (b *builder) mend(gone map[string]bool) bool {
	steps := map[string]Op{}
	for _, o := range b.plan {
		dest := strings.TrimPrefix(o.Dest, "/")
		for dir := range paths.Up(path.Dir(o.Dest)) {
			if gone[strings.TrimPrefix(dir, "/")] {
				return false
			}
		}
		if !gone[dest] {
			continue
		}
		if _, again := steps[dest]; again {
			return false
		}
		switch o.Kind {
		case ReadOnlyBind, HideFile, HideDirectory:
			steps[dest] = o
		default:
			return false
		}
	}
	if len(steps) != len(gone) {
		return false
	}
	for dest := range steps {
		at, err := mountID(b.trees, dest)
		if err != nil {
			return false
		}
		if above, err := mountID(b.trees, path.Dir(dest)); err != nil || at != above {
			return false // the old mount, of what is no longer the source
		}
	}
	b.sources = slices.DeleteFunc(b.sources, func(s sourceStamp) bool { return s.dest != "" && gone[s.dest] })
	b.version++
	if b.mended == nil {
		b.mended = map[string]uint64{}
	}
	for dest, o := range steps {
		delete(b.mounts, dest)
		if b.step(o) != nil {
			return false
		}
		b.mended[dest] = b.version
	}
	return true
}

// since gives the steps that have been put back since a version: a copy that was made then
// has lost the same mounts.
func (b *builder) since(version uint64) (steps []Op) {
	if b.version == version {
		return nil
	}
	for _, o := range b.plan {
		if b.mended[strings.TrimPrefix(o.Dest, "/")] > version {
			steps = append(steps, o)
		}
	}
	return steps
}
