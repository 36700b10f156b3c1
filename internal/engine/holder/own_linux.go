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
	layers []*layers
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
		s.giveBack(o)
	}
	return failed
}

// ownOverlays makes overlays that belong to nobody but who gets them, and gives them back once that is gone.
func (s *space) ownOverlays(sources []string) (*ownOverlays, *MountError) {
	o := &ownOverlays{}
	if len(sources) == 0 {
		return o, nil
	}
	s.mu.Lock()
	failed := s.prove()
	s.mu.Unlock()
	for _, source := range sources {
		if failed == nil {
			failed = s.addOverlay(o, source)
		}
	}
	if failed != nil {
		s.giveBack(o)
		return nil, failed
	}
	return o, nil
}

func (s *space) addOverlay(o *ownOverlays, source string) *MountError {
	lower, st, failed := openLower(source)
	if failed != nil {
		return failed
	}
	defer unix.Close(lower)
	l, fd := s.mountUnused(source, lower, &st)
	if l == nil {
		if l, failed = s.newLayers(source, &st); failed != nil {
			return failed
		}
		if fd, failed = mountLayers(lower, l.upper, l.work); failed != nil {
			l.remove(s)
			return failed
		}
		l.unused = l.state()
	}
	o.fds, o.lower, o.layers = append(o.fds, fd), append(o.lower, sourceStamp{source, false, stampOf(&st, false)}), append(o.layers, l)
	return nil
}

// layers are what an overlay of one command's own writes to.
type layers struct {
	name        string // of their directory
	source      string
	lower       ownership // of that
	upper, work int
	unused      layerState // how they are as long as nothing was written
}

// An ownership is what an upper directory has of the lower one.
type ownership struct{ mode, uid, gid uint32 }

func ownershipOf(st *unix.Stat_t) ownership { return ownership{st.Mode, st.Uid, st.Gid} }

// A layerState is all of an upper directory that an overlay shows.
type layerState struct {
	empty      bool
	stat       unix.Stat_t
	attributes string // the names of the extended ones
}

func (l *layers) state() (s layerState) {
	fd, err := unix.Open(fdPath+strconv.Itoa(l.upper), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return s
	}
	defer unix.Close(fd)
	var entries, names [512]byte
	n, err := unix.ReadDirent(fd, entries[:])
	if err == nil {
		_, count, _ := unix.ParseDirent(entries[:n], 1, nil)
		s.empty = count == 0
	}
	if n, err = unix.Flistxattr(fd, names[:]); err == nil || err == unix.ENOTSUP {
		s.attributes = string(names[:max(n, 0)])
	} else {
		s.empty = false
	}
	if unix.Fstat(fd, &s.stat) != nil {
		s.empty = false
	}
	s.stat.Atim = unix.Timespec{}
	return s
}

// untouched reports whether nothing was written to them.
func (l *layers) untouched() bool { return l.unused.empty && l.state() == l.unused }

// maxUnused bounds the layers that are kept: two for each of 32 directories, since those of the last command can be in
// use for a moment after its end.
const maxUnused = 64

// mountUnused mounts layers to which no command has written, in half the time of new ones. It gives nil where there
// are none.
func (s *space) mountUnused(source string, lower int, st *unix.Stat_t) (*layers, int) {
	s.mu.Lock()
	i := slices.IndexFunc(s.unused, func(l *layers) bool { return l.source == source })
	var l *layers
	if i >= 0 {
		l = s.unused[i]
		s.unused = slices.Delete(s.unused, i, i+1)
	}
	s.mu.Unlock()
	if l == nil {
		return nil, -1
	}
	if l.lower == ownershipOf(st) {
		fd, err := createOverlay(lower, l.upper, l.work)
		if err == unix.EBUSY { // of a mount that is still going, or that somebody holds open
			s.keep(l)
			return nil, -1
		}
		// Not before: who had it open could write to it until now.
		if err == nil && l.untouched() {
			return l, fd
		}
		if err == nil {
			unix.Close(fd)
		}
	}
	l.remove(s)
	return nil, -1
}

// newLayers makes those of a directory, of which st is.
func (s *space) newLayers(source string, st *unix.Stat_t) (*layers, *MountError) {
	// A name that nobody has had: what a command makes too deep to be removed here must not come to lie in a later
	// command's layers. It goes with the session.
	l := &layers{name: rand.Text(), source: source, lower: ownershipOf(st), upper: -1, work: -1}
	base, failed := makeDirs(s.dir, ownDir, l.name)
	if failed == nil {
		l.upper, l.work, failed = openLayers(base, st)
		unix.Close(base)
	}
	if failed != nil {
		l.remove(s)
		return nil, failed
	}
	return l, nil
}

// giveBack is for when nothing that a command has started lives any more.
func (s *space) giveBack(o *ownOverlays) {
	o.close()
	for _, l := range o.layers {
		if l.untouched() {
			s.keep(l)
		} else {
			l.remove(s)
		}
	}
}

// keep has a later command use layers. The oldest ones go.
func (s *space) keep(l *layers) {
	s.mu.Lock()
	s.unused = append(s.unused, l)
	l = nil
	if len(s.unused) > maxUnused {
		l, s.unused = s.unused[0], s.unused[1:]
	}
	s.mu.Unlock()
	if l != nil {
		l.remove(s)
	}
}

func (l *layers) remove(s *space) {
	for _, fd := range [...]int{l.upper, l.work} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	os.RemoveAll(s.path(ownDir + "/" + l.name))
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
