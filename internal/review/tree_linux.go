package review

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// openBeneath opens a path beneath a directory, on its mount, through no symlink.
func openBeneath(root int, p string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV}
	for {
		fd, err := unix.Openat2(root, p, &how)
		if err != unix.EINTR && err != unix.EAGAIN { // EAGAIN: a rename was in progress
			return fd, err
		}
	}
}

// tree is a layer on the disk.
type tree struct {
	path  string // for errors
	root  int
	upper bool // it has an overlay's marks

	dir string // the last used directory
	fd  int

	ofGit int64 // bytes of git's files that were read
}

// openTree opens a directory whose path has no symlink.
func openTree(p string, upper bool) (*tree, error) {
	root, err := hostpath.OpenNoSymlinks(p, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, hostpath.OpenError(p, err)
	}
	return &tree{path: p, root: root, upper: upper, fd: -1}, nil
}

func (t *tree) close() {
	if t != nil {
		t.forget()
		unix.Close(t.root)
	}
}

// forget closes the last used directory, which may be moved.
func (t *tree) forget() {
	if t.fd >= 0 {
		unix.Close(t.fd)
	}
	t.dir, t.fd = "", -1
}

func (t *tree) error(op, p string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path.Join(t.path, p), Err: err}
}

// in returns the directory of a path, and its name there. The tree owns the descriptor.
func (t *tree) in(p string) (int, string, error) {
	dir, name := path.Split(path.Clean(p))
	if dir = path.Clean(dir); t.fd < 0 || t.dir != dir {
		from, rest, err := t.root, dir, error(nil)
		if below, ok := strings.CutPrefix(dir, t.dir+"/"); ok && t.fd >= 0 { // a deep one costs no more than its name
			from, rest = t.fd, below
		}
		fd := -1
		if err = unix.ENAMETOOLONG; len(dir) < unix.PathMax { // a path that is too long from the root is refused from everywhere
			fd, err = openBeneath(from, rest, unix.O_PATH|unix.O_DIRECTORY)
		}
		if err != nil {
			return -1, "", err
		}
		t.forget()
		t.dir, t.fd = dir, fd
	}
	return t.fd, name, nil
}

// open opens a path by its directory: a command could make a path that is too long for the kernel,
// though its directory is not, so that nobody could look at the file.
func (t *tree) open(p string, flags int) (int, error) {
	dir, name, err := t.in(p)
	if err != nil {
		return -1, err
	}
	return openBeneath(dir, name, flags)
}

func (t *tree) Names(dir string) ([]string, error) {
	fd, err := t.open(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, t.error("open", dir, err)
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	names, err := f.Readdirnames(maxChanges + 1)
	if len(names) > maxChanges {
		return nil, tooLarge(manyChanges, dir)
	} else if err == io.EOF {
		err = nil
	}
	return names, t.error("readdir", dir, err)
}

func (t *tree) Look(p string) (n Node, err error) {
	fd, name, err := t.in(p)
	if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP {
		return n, nil
	}
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == unix.ENOENT {
		return n, nil
	}
	if err != nil {
		return n, t.error("stat", p, err)
	}
	n = nodeOf(&st)
	switch {
	case n.Kind == Symlink:
		text := make([]byte, unix.PathMax)
		size, err := unix.Readlinkat(fd, name, text)
		if err != nil {
			return n, t.error("readlink", p, err)
		}
		n.Target = string(text[:size])
	case t.upper && n.Kind == Device && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0:
		n.Kind = Whiteout
	case t.upper && n.Kind == Directory:
		mark := make([]byte, 8)
		size, err := unix.Lgetxattr(fdPath(fd)+"/"+name, opaqueMark, mark)
		n.opaque = err == nil && size == 1 && mark[0] == 'y'
	}
	return n, nil
}

// Attributes reads the extended attributes and access control lists at a path.
func (t *tree) Attributes(p string) (map[string]string, error) {
	at, names, err := t.attributes(p)
	all := map[string]string{}
	for _, name := range names {
		if ofSystem(name) && name != capabilities {
			continue
		}
		value, err := getAttribute(at, name)
		if err != nil {
			value = t.error("getxattr", p, err).Error() // differs from the other side's
		}
		all[name] = value
	}
	return all, err
}

// sum identifies what lies at a path, which is called as, with all its contents.
func (t *tree) sum(p, as string, exact bool) (uint64, error) {
	n, err := t.Look(p)
	if err != nil || n.Kind == Absent {
		return 0, err
	}
	sum := n.sum(as, exact)
	if n.Kind != Directory {
		return sum, nil
	}
	names, err := t.Names(p)
	for _, one := range names {
		if err != nil {
			break
		}
		var more uint64
		more, err = t.sum(path.Join(p, one), path.Join(as, one), exact)
		sum += more
	}
	return sum, err
}

// attributes returns the names of the attributes at a path, none if the file system has no
// attributes, and a path for their values until the next use of the tree. The kernel lists 64 KiB,
// but can store more: then the error is E2BIG.
func (t *tree) attributes(p string) (at string, names []string, err error) {
	fd, name, err := t.in(p)
	if err != nil {
		return "", nil, err
	}
	at = fdPath(fd) + "/" + name
	list, err := readAttribute(func(to []byte) (int, error) { return unix.Llistxattr(at, to) })
	if err != nil && err != unix.EOPNOTSUPP {
		return "", nil, err
	}
	return at, strings.FieldsFunc(list, func(r rune) bool { return r == 0 }), nil
}

func getAttribute(at, name string) (string, error) {
	return readAttribute(func(to []byte) (int, error) { return unix.Lgetxattr(at, name, to) })
}

// readAttribute reads a value, or the list of names, of at most 64 KiB in the kernel.
func readAttribute(read func([]byte) (int, error)) (string, error) {
	b := make([]byte, 256)
	n, err := read(b)
	if err == unix.ERANGE {
		b = make([]byte, 64<<10)
		n, err = read(b)
	}
	return string(b[:max(n, 0)]), err
}

// ofSystem reports whether an attribute is the overlay's mark, or one that no command can set.
func ofSystem(name string) bool {
	return strings.HasPrefix(name, "user.overlay.") || strings.HasPrefix(name, "trusted.") || strings.HasPrefix(name, "security.")
}

// opaqueMark marks a directory of an upper layer that hides the lower one.
const opaqueMark = "user.overlay.opaque"

func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func nodeOf(st *unix.Stat_t) Node {
	n := Node{Kind: Kind(st.Mode & unix.S_IFMT >> 12), Mode: st.Mode & 0o7777, uid: st.Uid, gid: st.Gid, Size: st.Size, dev: uint64(st.Dev), ino: st.Ino, links: uint64(st.Nlink), mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano()}
	if st.Mode&unix.S_IFMT == unix.S_IFBLK {
		n.Kind = Device
	}
	return n
}

// file opens a regular file of at most limit bytes for reading.
func (t *tree) file(p string, limit int64) (*hostpath.RegularFile, error) {
	fd, err := t.open(p, unix.O_RDONLY|unix.O_NONBLOCK)
	return hostpath.Regular(fd, err, path.Join(t.path, p), limit)
}

// data returns the bounds of the next part of a file, from an offset, that is not a hole; from is
// the size if there is none. A command can make a file whose holes, which are zeros, take hours to
// read.
func data(f *os.File, at, size int64) (from, to int64) {
	from, err := f.Seek(at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return size, size
	} else if err != nil { // the file system does not know
		return at, size
	}
	if to, err = f.Seek(from, unix.SEEK_HOLE); err != nil {
		to = size
	}
	return from, min(to, size)
}

// same reports whether a file has the same contents in both trees, as [Comparison.Same]. A file that
// cannot be read is different.
func same(a, b *tree, p string, used *int64) (bool, error) {
	one, err := a.file(p, math.MaxInt64)
	if err == nil {
		defer one.File.Close()
	}
	other, otherErr := b.file(p, math.MaxInt64)
	if otherErr == nil {
		defer other.File.Close()
	}
	if err = errors.Join(err, otherErr); isShortage(err) {
		return false, err
	} else if err != nil || one.Size() != other.Size() {
		return false, nil
	}
	var left, right [64 << 10]byte
	for at, size := int64(0), one.Size(); at < size; {
		from, to := data(one.File, at, size)
		if otherFrom, otherTo := data(other.File, at, size); otherFrom < from {
			from, to = otherFrom, otherTo
		}
		for at = from; at < to; {
			n := min(to-at, int64(len(left)))
			if *used+n > maxCompared {
				return false, errManyBytes
			}
			*used += n
			_, err := one.ReadAt(left[:n], at)
			_, otherErr := other.ReadAt(right[:n], at)
			if err == io.EOF || otherErr == io.EOF { // it was truncated
				return false, nil
			} else if err = errors.Join(err, otherErr); err != nil || !bytes.Equal(left[:n], right[:n]) {
				return false, err
			}
			at += n
		}
	}
	return true, nil
}

// copyFile copies the first bytes of a regular file of a tree to a new one, or makes none.
func (t *tree) copyFile(to string, of *tree, p string, size int64, mode uint32) error {
	from, err := of.file(p, math.MaxInt64)
	if err != nil {
		return err
	}
	defer from.File.Close()
	dir, name, err := t.in(to)
	if err != nil {
		return t.error("open", to, err)
	}
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return t.error("create", to, err)
	}
	f := os.NewFile(uintptr(fd), to)
	defer f.Close()
	if err = copyData(f, from.File, size); err != nil {
		unix.Unlinkat(dir, name, 0)
	}
	return err
}

// copyData copies the first bytes of a file to an empty one, with their holes.
func copyData(to, of *os.File, size int64) error {
	for at := int64(0); at < size; {
		from, end := data(of, at, size)
		_, err := of.Seek(from, io.SeekStart)
		_, toErr := to.Seek(from, io.SeekStart)
		if err = errors.Join(err, toErr); err == nil {
			_, err = io.CopyN(to, of, end-from)
		}
		if err != nil {
			return err
		}
		at = end
	}
	return to.Truncate(size)
}
