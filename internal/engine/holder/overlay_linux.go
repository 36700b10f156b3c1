package holder

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// prove makes sure that overlays work in the session's directory. The caller holds s.mu.
func (s *space) prove() error {
	if s.dir < 0 {
		return mountError("making an overlay", errors.New("there is no session to keep the writes"))
	}
	if s.proven {
		return nil
	}
	err := s.tryLayers()
	s.proven = err == nil
	return err
}

// makeOverlay makes the session's overlay of source. The caller holds s.mu.
func (s *space) makeOverlay(source string) (fd int, err error) {
	if err := s.prove(); err != nil {
		return -1, err
	}
	lower, st, err := openLower(source)
	if err != nil {
		return -1, err
	}
	defer unix.Close(lower)
	// The name depends on the source, so that the next holder of the session finds it.
	sum := fnv.New128a()
	sum.Write([]byte(source))
	base, err := makeDirs(s.dir, "overlay", hex.EncodeToString(sum.Sum(nil)))
	if err != nil {
		return -1, err
	}
	defer unix.Close(base)
	if err := claim(base, source); err != nil {
		return -1, err
	}
	return overlayIn(base, "", lower, &st, false)
}

// openLower opens the directory for an overlay.
func openLower(source string) (fd int, st unix.Stat_t, err error) {
	if fd, st, err = openSource(source); err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		unix.Close(fd)
		err = unix.ENOTDIR
	}
	return fd, st, mountError("opening "+strconv.Quote(source), err)
}

// overlayIn makes an overlay of the directory lower, whose state is st, with the other layers in
// base, where their names begin with prefix. Nobody sees the overlay yet. The layers of a volatile
// one are useless after its last mount is gone.
func overlayIn(base int, prefix string, lower int, st *unix.Stat_t, volatile bool) (fd int, err error) {
	upper, err := makeDirs(base, prefix+"upper")
	if err != nil {
		return -1, err
	}
	defer unix.Close(upper)
	// The merged root has the owner and mode of the upper directory, which commands can change. So only
	// a new one gets those of the source. Its owner keeps access, to look at it or to change it back.
	proc, mode := fdPath+strconv.Itoa(upper), st.Mode
	var now unix.Stat_t
	if unix.Faccessat(base, prefix+"work", unix.F_OK, 0) == unix.ENOENT {
		unix.Chown(proc, int(st.Uid), int(st.Gid)) // for an ordinary user it stays the user's
	} else if err := unix.Fstat(upper, &now); err == nil {
		mode = now.Mode | 0o700
	}
	if err := unix.Chmod(proc, mode&0o7777); err != nil {
		return -1, mountError("chmod of the upper directory", err)
	}
	work, err := makeDirs(base, prefix+"work")
	if err != nil {
		return -1, err
	}
	defer unix.Close(work)
	err = patiently(func() (err error) {
		fd, err = createOverlay(lower, upper, work, volatile)
		return err
	})
	if err == unix.EBUSY {
		err = fmt.Errorf("%w: the disk is slow, or a process of another command still holds it open, so end that process", unix.EBUSY)
	}
	return fd, mountError("mounting an overlay", err)
}

// claim makes sure that a directory, named by a hash, belongs to one source. Only this session's
// holder does so, but a holder may be killed or find the disk full: so the record of the source is
// complete, or missing. After a power cut it can be empty, which counts as missing.
func claim(base int, source string) error {
	const name, begun = "source", "source.begun"
	path := func(name string) string { return fdPath + strconv.Itoa(base) + "/" + name }
	b, err := os.ReadFile(path(name))
	if os.IsNotExist(err) || err == nil && len(b) == 0 {
		if err = os.WriteFile(path(begun), []byte(source), 0o600); err == nil {
			if err = unix.Renameat(base, begun, base, name); err == nil {
				return nil
			}
		}
	}
	if err != nil {
		return mountError("claiming the overlay's directory", err)
	}
	if string(b) != source {
		return mountError("claiming the overlay's directory", errors.New("it is that of "+strconv.Quote(string(b))))
	}
	return nil
}

// createOverlay names the layers by descriptor: what was opened is what is
// mounted, and no character of a path has a meaning.
func createOverlay(lower, upper, work int, volatile bool) (int, error) {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	for _, o := range [...][2]string{
		{"lowerdir", fdPath + strconv.Itoa(lower)},
		{"upperdir", fdPath + strconv.Itoa(upper)},
		{"workdir", fdPath + strconv.Itoa(work)},
		// Not trusted.*, which needs privileges.
		{"userxattr", ""},
		// The kernel then refuses a second mount of the upper directory.
		{"index", "on"},
	} {
		if o[1] == "" {
			err = unix.FsconfigSetFlag(fs, o[0])
		} else {
			err = unix.FsconfigSetString(fs, o[0], o[1])
		}
		if err != nil {
			return -1, err
		}
	}
	if volatile {
		// Otherwise the end of the mount would wait until all that anybody has written to the
		// layers' file system is on the disk.
		if err := unix.FsconfigSetFlag(fs, "volatile"); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(fs); volatile && err == unix.EIO {
		return createOverlay(lower, upper, work, false) // a write to the layers' file system failed once, and nobody has read the error
	} else if err != nil {
		return -1, err
	}
	// The kernel makes these without any permissions, and needs none. With permissions their owner
	// can remove the tree, even if this process is gone.
	for _, name := range [...]string{"work", "index"} {
		if err := unix.Fchmodat(work, name, 0o700, 0); err != nil && err != unix.ENOENT {
			return -1, err
		}
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, locked)
	var st unix.Statfs_t
	if err == nil && unix.Fstatfs(fd, &st) == nil && st.Flags&unix.ST_RDONLY != 0 { // as on a full disk
		unix.Close(fd)
		return -1, errors.New("the kernel could not prepare its work directory, and made it read-only")
	}
	return fd, err
}

// makeDirs opens a directory beneath dir and makes its missing parts.
func makeDirs(dir int, names ...string) (int, error) {
	current := dir
	for _, name := range names {
		next, err := -1, unix.Mkdirat(current, name, 0o700)
		if err == nil || err == unix.EEXIST {
			next, err = unix.Openat(current, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		}
		if current != dir {
			unix.Close(current)
		}
		if err != nil {
			return -1, mountError("making "+name, err)
		}
		current = next
	}
	return current, nil
}

// openSource opens a path of the host, and looks at it.
func openSource(path string) (fd int, st unix.Stat_t, err error) {
	host, err := unix.Open(Host, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(host)
		fd, st, err = openSourceIn(host, path)
	}
	return fd, st, err
}

// openSourceIn is openSource with the open Host. No component may be a symlink: the path was resolved
// before, so a symlink was planted since.
func openSourceIn(host int, path string) (fd int, st unix.Stat_t, err error) {
	if fd, err = openBeneath(host, inHost(path)); err == nil {
		if err = unix.Fstat(fd, &st); err != nil {
			unix.Close(fd)
		}
	}
	return fd, st, err
}

// inHost is a path of the host relative to Host.
func inHost(path string) string { return cmp.Or(path[1:], ".") }

// openBeneath walks from dir and goes neither up, as "a/.." would, nor through a link. It may return
// a link itself. The path must be in its shortest form.
func openBeneath(dir int, relative string) (int, error) {
	if !filepath.IsLocal(relative) || filepath.Clean(relative) != relative {
		return -1, unix.EXDEV
	}
	return hostpath.OpenNoSymlinksAt(dir, relative, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
}
