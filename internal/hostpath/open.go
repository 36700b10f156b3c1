//go:build unix

package hostpath

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// Resolve follows the symlinks of a path at which sbxhost will write, its last element included,
// and returns the path without them. A missing element has none.
//
// Resolve follows a symlink only if the person who named the path can have meant it: the symlink
// belongs to root or to the caller, and is not in any directory of writable, the directories that
// commands can write to. Otherwise a command could make a symlink so that its user, who may be
// root, writes wherever the command wants. Resolve calls writable if there is a symlink; writable
// may be nil.
//
// A relative path starts at base. The caller is in base already, so the symlinks of base do not
// matter.
func Resolve(base, path string, writable func() []string) (string, error) {
	if !filepath.IsAbs(path) {
		at, err := filepath.EvalSymlinks(base)
		if err != nil {
			return "", err
		}
		path = at + "/" + path // not Join: ".." after a symlink is not lexical
	}
	var symlinks []string
	resolved, _, err := Follow("/", path, func(link string) { symlinks = append(symlinks, link) }, nil)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(resolved); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return resolved, admit(symlinks, writable)
}

// admit refuses a symlink that another user, or a command, can have made. It compares directories
// by identity, because one can have several paths.
func admit(symlinks []string, writable func() []string) error {
	var dirs []fs.FileInfo
	if len(symlinks) > 0 && writable != nil {
		for _, dir := range writable() {
			if info, err := os.Stat(dir); err == nil {
				dirs = append(dirs, info)
			}
		}
	}
	for _, link := range symlinks {
		info, err := os.Lstat(link)
		if err != nil {
			return err
		}
		if uid, _, known := ownerOf(info); !known || !trustedOwner(uid) {
			return fmt.Errorf("the symlink %s belongs to user %d, who can lead it elsewhere: name what it leads to", Quote(link), uid)
		}
		for dir := range paths.Up(filepath.Dir(link)) {
			at, err := os.Stat(dir)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(dirs, func(d fs.FileInfo) bool { return os.SameFile(at, d) }) {
				return fmt.Errorf("the symlink %s lies where commands can write, so that one can have made it: name what it leads to", Quote(link))
			}
		}
	}
	return nil
}

// OpenError is the error of os.Open for a path that was opened otherwise.
func OpenError(path string, err error) error {
	return &fs.PathError{Op: "open", Path: path, Err: err}
}

// A Dir is a directory that was opened by the rules of [Resolve]. Its methods take names in it, and
// follow no symlink.
type Dir struct {
	fd   int
	path string
}

// OpenDir opens a directory.
func OpenDir(base, path string, writable func() []string) (*Dir, error) {
	resolved, err := Resolve(base, path, writable)
	if err != nil {
		return nil, err
	}
	// A symlink on the way is new since then.
	fd, err := OpenNoSymlinks(resolved, LookFlags|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, OpenError(path, err)
	}
	return &Dir{fd, resolved}, nil
}

// OpenOrMake opens a path that has no symlink. It makes a missing file or, with O_DIRECTORY, directory,
// and the directories above it, each in the opened one above: a symlink that somebody puts there
// meanwhile leads it nowhere.
func OpenOrMake(path string, flag int) (fd int, err error) {
	fd, err = OpenNoSymlinks(path, flag, 0)
	if err != unix.ENOENT {
		return fd, err
	}
	above, err := OpenOrMake(filepath.Dir(path), LookFlags|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(above)
	if flag&unix.O_DIRECTORY == 0 {
		flag |= unix.O_CREAT
	} else if err := unix.Mkdirat(above, filepath.Base(path), 0o700); err != nil && err != unix.EEXIST {
		return -1, err
	}
	return Openat(above, filepath.Base(path), flag|unix.O_NOFOLLOW, 0o600)
}

// At returns the Dir of an open directory, which the caller closes.
func At(dir *os.File) *Dir { return &Dir{int(dir.Fd()), dir.Name()} }

// Path returns the directory's path without symlinks.
func (d *Dir) Path() string { return d.path }

func (d *Dir) Close() { unix.Close(d.fd) }

// Lstat describes the file of that name.
func (d *Dir) Lstat(name string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, d.error("stat", name, err)
	}
	return &st, nil
}

// Create makes a new file to write to.
func (d *Dir) Create(name string, perm fs.FileMode) (*os.File, error) {
	fd, err := Openat(d.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(perm.Perm()))
	if err != nil {
		return nil, d.error("create", name, err)
	}
	return os.NewFile(uintptr(fd), filepath.Join(d.path, name)), nil
}

// TempName is a name that nobody can guess.
func TempName() string { return ".sbxhost-" + rand.Text() }

// Put writes a file of that name, completely or not at all; before the end, the file has the name
// temp. If ready is not nil, it can refuse the written file.
func (d *Dir) Put(temp, name string, text []byte, mode fs.FileMode, ready func(*os.File) error) error {
	f, err := d.Create(temp, mode)
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", Shown(filepath.Join(d.path, name)), err)
	}
	_, err = f.Write(text)
	if err == nil && ready != nil {
		err = ready(f)
	}
	if err == nil {
		// Otherwise, after a crash of the machine, the new name may exist without the text.
		err = f.Sync()
	}
	err = cmp.Or(err, f.Close())
	if err == nil {
		err = d.error("rename", name, unix.Renameat(d.fd, temp, d.fd, name)) // also over a file of that name
	}
	if err == nil {
		err = d.Sync()
	}
	if err != nil {
		d.Remove(temp)
		return fmt.Errorf("%s was not written: %w", Shown(filepath.Join(d.path, name)), err)
	}
	return nil
}

func (d *Dir) Remove(name string) error { return d.error("remove", name, unix.Unlinkat(d.fd, name, 0)) }

// Sync waits until the names in the directory are on the disk, if it has a disk.
func (d *Dir) Sync() error {
	fd, err := Openat(d.fd, ".", listing, 0)
	if err == nil {
		err = unix.Fsync(fd)
		unix.Close(fd)
	}
	if err == unix.EINVAL || err == unix.ENOTSUP || err == unix.EACCES { // a directory that only takes names
		return nil
	}
	return d.error("sync", ".", err)
}

func (d *Dir) error(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: filepath.Join(d.path, name), Err: err}
}

// listing opens a directory to list it.
const listing = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

// Openat is openat(2), repeated after a signal.
func Openat(dir int, name string, flag int, perm uint32) (fd int, err error) {
	err = Retry(func() (err error) {
		fd, err = unix.Openat(dir, name, flag, perm)
		return err
	})
	return fd, err
}

// Retry repeats a system call after a signal.
func Retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// Lstat returns the zero value with an error.
func Lstat(path string) (st unix.Stat_t, err error) {
	err = Retry(func() error { return unix.Lstat(path, &st) })
	return st, err
}

// MakePoint makes a directory or a file to mount on later, and the directories above it, in root,
// where other processes can write. It follows no symlink. The directories get these permissions,
// and belong to uid and gid, unless these are negative.
func MakePoint(root *os.Root, name string, isDir bool, mode fs.FileMode, uid, gid int) error {
	at := ""
	for part := range strings.SplitSeq(name, "/") {
		at = filepath.Join(at, part)
		info, err := root.Lstat(at)
		switch {
		case err == nil && info.Mode()&fs.ModeSymlink != 0:
			return &fs.PathError{Op: "mkdir", Path: at, Err: unix.ELOOP}
		case err == nil:
			continue // the process that mounts checks its type
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if at == name && !isDir {
			f, err := root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err == nil {
				f.Close()
			}
			if err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		} else if err := root.Mkdir(at, mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		} else if uid >= 0 {
			if err := giveTo(root, at, uid, gid); err != nil {
				return err
			}
		}
	}
	return nil
}

// giveTo gives a directory made by root to a user who works beside it. It works by descriptor, and
// on directories alone: in a directory of the user, the user could replace a file by a hard link to
// one of root's files.
func giveTo(root *os.Root, name string, uid, gid int) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != 0 {
		return err
	}
	return f.Chown(uid, gid)
}
