package stubs

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/hostpath"
)

// create makes a stub, exclusively, or takes one from the cache, and claims it.
// Its directory is opened without following a symlink anywhere: a command could
// have put one there, to have us create something elsewhere. The error is EEXIST
// where somebody was faster. With another one, a record that has a path is of what
// was made and could not be claimed.
func create(s Stub, kept *cache) (rec record, fd int, err error) {
	dir, err := openDir(filepath.Dir(s.Path))
	if err != nil {
		return record{}, -1, err
	}
	defer unix.Close(dir)
	if rec, fd, err = kept.take(s, dir); err == nil || err == unix.EEXIST {
		return rec, fd, err
	}
	rec, name := record{path: s.Path, dir: !s.File, content: s.Content}, filepath.Base(s.Path)
	if s.File {
		err = createFile(dir, name, s.Content)
	} else {
		err = unix.Mkdirat(dir, name, markMode)
	}
	if err != nil {
		return record{}, -1, err
	}
	fd, st, err := claim(s.Path)
	switch {
	case errors.Is(err, errNoLocks):
		// The ledger is all that there is to know it by.
		err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		rec.dev, rec.ino = uint64(st.Dev), st.Ino
		return rec, -1, err
	case shortage(err):
		if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			rec.dev, rec.ino = uint64(st.Dev), st.Ino
		}
		return rec, -1, err
	case err != nil:
		return record{}, -1, err
	}
	rec.dev, rec.ino = uint64(st.Dev), st.Ino
	if !rec.same(&st) || !rec.empty(fd, &st) {
		unclaim(fd)
		return record{}, -1, unix.EEXIST // something else was put in its place
	}
	finish(dir, fd, &st)
	return rec, fd, nil
}

// finish marks a stub that was made and claimed. What root makes in a user's
// directory, and comes to stay since something was put into it, is the user's.
func finish(dir, fd int, st *unix.Stat_t) {
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if int(st.Uid) != os.Geteuid() || isDir && !emptyDir(fd) {
		return // it was exchanged for something else, or owners mean nothing there
	}
	var parent unix.Stat_t
	if unix.Fstat(dir, &parent) == nil && givenAway(&parent) {
		unix.Fchown(fd, int(parent.Uid), int(parent.Gid))
	}
	mark(fd, isDir)
}

// givenAway reports whether what is made in a directory becomes its owner's.
func givenAway(parent *unix.Stat_t) bool { return os.Geteuid() == 0 && parent.Uid != 0 }

// ownedAs reports whether something is owned as if it had been made in parent.
func ownedAs(st, parent *unix.Stat_t) bool {
	switch {
	case givenAway(parent):
		return st.Uid == parent.Uid && st.Gid == parent.Gid
	case parent.Mode&unix.S_ISGID != 0, runtime.GOOS == "darwin":
		return int(st.Uid) == os.Geteuid() && st.Gid == parent.Gid
	}
	return int(st.Uid) == os.Geteuid() && int(st.Gid) == os.Getegid()
}

func emptyDir(fd int) bool {
	again, err := openAt(fd, ".")
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(again), ".")
	defer f.Close()
	names, _ := f.Readdirnames(1)
	return len(names) == 0
}

// createNamed creates a file under its name, which is there before its content.
func createNamed(dir int, name, content string) error {
	fd, err := hostpath.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if _, err := f.WriteString(content); err != nil {
		unix.Unlinkat(dir, name, 0)
		return err
	}
	return nil
}

// same reports whether st is of the stub. One that was about to be made when
// its process was killed is known by its kind.
func (r *record) same(st *unix.Stat_t) bool {
	want := uint32(unix.S_IFREG)
	if r.dir {
		want = unix.S_IFDIR
	}
	if uint32(st.Mode)&unix.S_IFMT != want {
		return false
	}
	return r.ino == 0 || r.ino == st.Ino && r.dev == uint64(st.Dev)
}

// remove removes the stub, or puts it into the cache, if it is still that and still
// empty, and reports whether it had to be left since somebody else has a claim to
// it, or nobody can look now. fd is one's own claim, which is given up; negative is none.
func (r *record) remove(fd int, kept *cache) (busy bool) {
	defer func() { unclaim(fd) }()
	dir, err := openDir(filepath.Dir(r.path))
	if err != nil {
		return shortage(err)
	}
	defer unix.Close(dir)
	name := filepath.Base(r.path)
	if fd < 0 {
		if fd, err = openAt(dir, name); shortage(err) {
			return true
		} else if err != nil {
			fd = -1
		}
	}
	if fd >= 0 {
		if err := hostpath.TryLock(fd, unix.LOCK_EX); err == unix.EWOULDBLOCK {
			return true
		}
	}
	// What lies there now, as nobody else can exchange it any more: until it was
	// locked, another may have removed it, and a third made a new one.
	var st, locked unix.Stat_t
	if fd >= 0 && (unix.Fstat(fd, &locked) != nil || !r.empty(fd, &locked)) {
		return false
	}
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || !r.same(&st) {
		return false
	}
	if fd >= 0 && (locked.Ino != st.Ino || locked.Dev != st.Dev) {
		return false
	}
	if kept.put(r, dir, fd) {
		return false
	}
	if !r.dir {
		// Once more, as late as can be: it may be what somebody has saved there.
		if fd >= 0 && unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Ino == locked.Ino && st.Dev == locked.Dev {
			unix.Unlinkat(dir, name, 0)
		}
	} else if unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) != nil && fd >= 0 && marked(&st) {
		unix.Fchmod(fd, plainMode) // it is not empty, and no stub any more
	}
	return false
}

// marked reports whether the claimed stub has its mark.
func (r *record) marked(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && marked(&st)
}

// empty reports whether an opened file has what it was made with and one name -
// or less, if its process was killed on the way. That a directory is empty is
// found out by removing it.
func (r *record) empty(fd int, st *unix.Stat_t) bool {
	if r.dir {
		return true
	}
	if st.Nlink != 1 || st.Size != 0 && st.Size != int64(len(r.content)) {
		return false
	}
	text := make([]byte, len(r.content)+1)
	n, err := unix.Pread(fd, text, 0)
	return err == nil && (n == 0 || string(text[:n]) == r.content)
}

// shortage reports whether something could not be opened for want of descriptors or
// memory, so that it tells nothing of what lies there.
func shortage(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}
