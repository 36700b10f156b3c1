package host

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
)

// A watched is a file or directory of the host that a mount hides or protects
// while a command runs. The kernel takes a mount away when somebody outside of the
// sandbox removes what it lies on, or renames something else over it - as editors
// do to save a file, and git to change its configuration. Nothing can put it
// back into a sandbox that runs.
type watched struct {
	path, loss string
	dev, ino   uint64
}

// watch notes what is hidden and protected from a command at its start.
func watch(spec *shared.Spec, masks []shared.Mask) (list []watched) {
	add := func(p, loss string) {
		if len(list) < maxMasks {
			if dev, ino, ok := inode(p); ok {
				list = append(list, watched{p, loss, dev, ino})
			}
		}
	}
	for _, have := range spec.Mounts {
		if what, ok := strings.CutPrefix(have.Origin, "protected: "); ok && have.Source != "" {
			add(have.Source, fmt.Sprintf("could be written (%s)", what))
		}
	}
	m := mounts{spec: spec}
	for _, mask := range masks {
		host := mask.Path
		if cover, at := m.cover(mask.Path); cover != nil {
			host = at
		}
		if host != "" {
			add(host, fmt.Sprintf("was not hidden (%s)", mask.Origin))
		}
	}
	return list
}

// replaced gives a sentence for each that is not what it was.
func replaced(list []watched) (notes []string) {
	for _, w := range list {
		if dev, ino, ok := inode(w.path); ok && dev == w.dev && ino == w.ino {
			continue
		}
		note := fmt.Sprintf("%s was removed or replaced from outside while the command ran; from then on it %s", w.path, w.loss)
		if !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return notes
}

func inode(p string) (dev, ino uint64, ok bool) {
	info, err := os.Lstat(p)
	if err != nil {
		return 0, 0, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return uint64(st.Dev), st.Ino, true
}
