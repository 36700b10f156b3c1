package holder

import (
	"crypto/rand"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
)

// ownDir has the layers of overlays that are one command's own.
const ownDir = "own"

// OwnOverlays gives the sources of which a Sandbox with these steps has overlays of its own, each once, in the
// order of the descriptors that its init finds them at.
func OwnOverlays(steps []Op) (sources []string) {
	for _, o := range steps {
		if o.Kind == OwnOverlay && !slices.Contains(sources, o.Source) {
			sources = append(sources, o.Source)
		}
	}
	return sources
}

// ownOverlays are those of one command. Nil has none.
type ownOverlays struct {
	fds    []int // of the mounts, which nobody sees yet
	lower  []sourceStamp
	remove func()
}

func (o *ownOverlays) close() {
	frame.CloseAll(o.fds)
	o.fds = nil
}

// current reports whether each is still of the directory that its path leads to.
func (o *ownOverlays) current() bool {
	for _, s := range o.lower {
		fd, st, failed := openLower(s.path)
		if failed != nil {
			return false
		}
		unix.Close(fd)
		if stampOf(&st, false) != s.stamp {
			return false
		}
	}
	return true
}

// haveOverlay makes the overlay of a directory, or finds out whether commands can have one of their own.
func (s *space) haveOverlay(source string, own bool) *MountError {
	if !own {
		_, failed := s.overlay(source)
		return failed
	}
	o, failed := s.ownOverlays([]string{source})
	if failed == nil {
		o.close()
		o.remove()
	}
	return failed
}

// ownOverlays makes overlays that belong to nobody but who gets them: the layers are removed once that is gone.
func (s *space) ownOverlays(sources []string) (*ownOverlays, *MountError) {
	o := &ownOverlays{remove: func() {}}
	if len(sources) == 0 {
		return o, nil
	}
	s.mu.Lock()
	failed := s.prove()
	s.mu.Unlock()
	if failed != nil {
		return nil, failed
	}
	// A name that nobody has had: what a command makes too deep to be removed here must not come to lie in a later
	// command's layers. It goes with the session.
	name := rand.Text()
	o.remove = func() { os.RemoveAll(s.path(ownDir + "/" + name)) }
	for i, source := range sources {
		lower, st, failed := openLower(source)
		if failed == nil {
			var base, fd int
			if base, failed = makeDirs(s.dir, ownDir, name, strconv.Itoa(i)); failed == nil {
				fd, failed = overlayIn(base, lower, &st)
				unix.Close(base)
			}
			unix.Close(lower)
			if failed == nil {
				o.fds = append(o.fds, fd)
				o.lower = append(o.lower, sourceStamp{source, false, stampOf(&st, false)})
			}
		}
		if failed != nil {
			o.close()
			o.remove()
			return nil, failed
		}
	}
	return o, nil
}

// path names what lies in the holder's own directory.
func (s *space) path(name string) string { return fdPath + strconv.Itoa(s.dir) + "/" + name }

// ownOverlay shows, of those of this sandbox, the one of a source.
func (b *builder) ownOverlay(source, dest string) *MountError {
	if at, shown := b.shown[source]; shown { // at another path, too
		return b.cloneTo(dest, b.trees, at, true, 0)
	}
	if len(b.overlays) == 0 {
		return &MountError{Index: -1, Call: "mounting an overlay", Reason: "none was made"}
	}
	fd := b.overlays[0]
	b.overlays = b.overlays[1:]
	defer unix.Close(fd)
	if b.shown == nil {
		b.shown = map[string]string{}
	}
	b.shown[source] = dest
	return b.put(fd, dest, true)
}
