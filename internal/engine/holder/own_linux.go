package holder

import (
	"cmp"
	"crypto/rand"
	"errors"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
)

// ownDir has the layers of overlays of single commands.
const ownDir = "own"

// OwnOverlays returns the sources of own overlays in a Sandbox with these steps, each once, in the
// order of its init's descriptors.
func OwnOverlays(steps []Op) (sources []string) {
	for _, o := range steps {
		if o.Kind == OwnOverlay && !slices.Contains(sources, o.Source) {
			sources = append(sources, o.Source)
		}
	}
	return sources
}

// ownOverlays are the overlays of one command.
type ownOverlays struct {
	fds    []int   // of the mounts, which nobody sees yet, in the order of the sources
	failed []error // why there is none, in the same order
	lower  []sourceStamp
	remove func() // closes the mounts, and removes their layers
}

func (o *ownOverlays) close() {
	frame.CloseAll(o.fds)
	o.fds = nil
}

// current reports whether each is still of the directory that its path leads to.
func (o *ownOverlays) current() bool {
	for _, s := range o.lower {
		fd, st, err := openLower(s.path)
		if err != nil {
			return false
		}
		unix.Close(fd)
		if stampOf(&st, false) != s.stamp {
			return false
		}
	}
	return true
}

// haveOverlay makes the overlay of a directory, or finds out whether commands can have one of their
// own.
func (s *space) haveOverlay(source string, own bool) error {
	if !own {
		_, err := s.part(Op{Kind: Overlay, Source: source})
		return err
	}
	o, err := s.allOverlays([]string{source})
	if err == nil {
		o.remove()
	}
	return err
}

// allOverlays is ownOverlays where none may fail.
func (s *space) allOverlays(sources []string) (*ownOverlays, error) {
	o := s.ownOverlays(sources)
	err := cmp.Or(o.failed...)
	if err != nil {
		o.remove()
	}
	return o, err
}

// ownOverlays makes overlays that belong only to their receiver: their layers are removed when the
// receiver is gone.
func (s *space) ownOverlays(sources []string) *ownOverlays {
	o := &ownOverlays{remove: func() {}}
	if len(sources) == 0 {
		return o
	}
	s.mu.Lock()
	err := s.prove()
	s.mu.Unlock()
	// The name is new: what a command makes too deep to be removed here must not appear in a later
	// command's layers. It goes with the session.
	base, name := -1, rand.Text()
	if err == nil {
		o.remove = func() {
			o.close()
			os.RemoveAll(s.path(ownDir + "/" + name))
		}
		base, err = makeDirs(s.dir, ownDir, name)
	}
	// Before any overlay is made, so that [ownOverlays.current] notices a directory that was replaced meanwhile.
	lowers := make([]int, len(sources))
	states := make([]unix.Stat_t, len(sources))
	for i, source := range sources {
		reason := err
		if reason == nil {
			lowers[i], states[i], reason = openLower(source)
		}
		if reason == nil {
			defer unix.Close(lowers[i])
			o.lower = append(o.lower, sourceStamp{path: source, stamp: stampOf(&states[i], false)})
		}
		o.fds, o.failed = append(o.fds, -1), append(o.failed, reason)
	}
	if err != nil {
		return o
	}
	defer unix.Close(base)
	together := s.overlayTogether(base, name, sources)
	for i, source := range sources {
		switch fd, made := together[source]; {
		case made:
			o.fds[i] = fd
		case o.failed[i] == nil:
			o.fds[i], o.failed[i] = overlayIn(base, strconv.Itoa(i)+".", lowers[i], &states[i], true)
		}
	}
	return o
}

// overlayTogether makes the overlays of sources that lie in one directory of this process's user,
// as parts of one overlay of that directory, because an overlay costs as much as ten other mounts.
// Nobody sees other parts. A source that it leaves out must get an overlay of its own: on the way
// to it there can be another mount, or a directory of another user or group. The kernel
// refuses a directory in which anything is mounted.
func (s *space) overlayTogether(base int, name string, sources []string) map[string]int {
	top := commonDir(sources, func(dir string) bool {
		var st unix.Stat_t
		return unix.Lstat(Host+dir, &st) == nil && isOwn(&st)
	})
	if top == "" {
		return nil
	}
	lower, st, err := openLower(top)
	if err != nil {
		return nil
	}
	defer unix.Close(lower)
	merged, err := overlayIn(base, "together.", lower, &st, true)
	if err != nil {
		return nil
	}
	defer unix.Close(merged)
	at := partsDir + "/" + name // before Linux 6.15, the kernel binds no part of a mount that is mounted nowhere
	if s.attach(merged, at) != nil {
		return nil
	}
	defer s.detach(at)
	made := map[string]int{}
	for _, source := range sources {
		relative, inside := strings.CutPrefix(source, top+"/")
		if !inside || !ownedBelow(lower, relative) {
			continue
		}
		part, err := openBeneath(merged, relative)
		if err != nil {
			continue
		}
		if fd, err := unix.OpenTree(part, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH); err == nil {
			made[source] = fd
		}
		unix.Close(part)
	}
	return made
}

// commonDir returns the deepest of the fit directories in which most of the paths lie, if at least
// two lie in it.
func commonDir(list []string, fit func(dir string) bool) (top string) {
	most := 2
	for _, one := range list {
		for dir := path.Dir(one); len(dir) > 1; dir = path.Dir(dir) {
			n := 0
			for _, other := range list {
				if strings.HasPrefix(other, dir+"/") {
					n++
				}
			}
			if (n > most || n == most && len(dir) > len(top)) && fit(dir) {
				most, top = n, dir
			}
		}
	}
	return top
}

// isOwn reports whether a directory is this process's user's and group's: an overlay can copy no other, since a user
// namespace need not map its owner or group.
func isOwn(st *unix.Stat_t) bool {
	return int(st.Uid) == os.Geteuid() && int(st.Gid) == os.Getegid()
}

// ownedBelow reports whether dir, and each directory on the way to a path in it, is this process's own, on one mount.
func ownedBelow(dir int, relative string) bool {
	fd, err := unix.Openat2(dir, relative, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV})
	if err != nil {
		return false
	}
	unix.Close(fd)
	for name := relative; ; name = path.Dir(name) {
		var st unix.Stat_t
		if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || !isOwn(&st) {
			return false
		}
		if name == "." {
			return true
		}
	}
}

// path names what lies in the holder's own directory.
func (s *space) path(name string) string { return fdPath + strconv.Itoa(s.dir) + "/" + name }

// ownOverlay shows the sandbox's overlay of a source.
func (b *builder) ownOverlay(source, dest string) error {
	if at, shown := b.shown[source]; shown { // at another path too
		return b.cloneTo(dest, b.trees, at, true, 0)
	}
	fd, made := b.overlays[source]
	if !made {
		return mountError("mounting an overlay", errors.New("none was made of "+strconv.Quote(source)))
	}
	defer unix.Close(fd)
	b.shown[source] = dest
	return b.put(fd, dest, true)
}
