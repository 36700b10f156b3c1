package stubs

import (
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// create makes a stub, exclusively. Its directory is opened without following
// a symlink anywhere: a command could have put one there, to have us create
// something elsewhere.
func create(s Stub) (record, error) {
	dir, err := openDir(filepath.Dir(s.Path))
	if err != nil {
		return record{}, err
	}
	defer unix.Close(dir)
	rec, name := record{path: s.Path, dir: !s.File, content: s.Content}, filepath.Base(s.Path)
	if s.File {
		if err := createFile(dir, name, s.Content); err != nil {
			return record{}, err
		}
	} else if err := unix.Mkdirat(dir, name, 0o755); err != nil {
		return record{}, err
	}
	var st, parent unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return record{}, err
	}
	rec.dev, rec.ino = uint64(st.Dev), st.Ino
	// What root makes in a user's directory, and comes to stay since something
	// was put into it, is the user's.
	if os.Geteuid() == 0 && unix.Fstat(dir, &parent) == nil && parent.Uid != 0 {
		unix.Fchownat(dir, name, int(parent.Uid), int(parent.Gid), unix.AT_SYMLINK_NOFOLLOW)
	}
	return rec, nil
}

// createNamed creates a file under its name, which is there before its content.
func createNamed(dir int, name, content string) error {
	fd, err := retryFD(func() (int, error) {
		return unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	})
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

// remove removes the stub, if it is still that and still empty.
func (r *record) remove() {
	dir, err := openDir(filepath.Dir(r.path))
	if err != nil {
		return
	}
	defer unix.Close(dir)
	name := filepath.Base(r.path)
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || !r.same(&st) {
		return
	}
	if r.dir {
		unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) // fails unless it is empty
		return
	}
	if st.Nlink == 1 && r.unwritten(dir, name, &st) {
		unix.Unlinkat(dir, name, 0)
	}
}

// unwritten reports whether a file has what it was made with - or less, if its
// process was killed on the way.
func (r *record) unwritten(dir int, name string, st *unix.Stat_t) bool {
	if st.Size == 0 {
		return true
	}
	if st.Size != int64(len(r.content)) {
		return false
	}
	fd, err := retryFD(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), r.path)
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(len(r.content))+1))
	return err == nil && string(text) == r.content
}

func retryFD(open func() (int, error)) (int, error) {
	for {
		fd, err := open()
		if err != unix.EINTR {
			return fd, err
		}
	}
}
