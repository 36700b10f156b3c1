package holder

import (
	"cmp"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// builder makes one tree in the mount namespace of its thread.
type builder struct {
	space     *space
	host      int // of Host
	trees     int // of Trees
	ownMounts map[uint64]bool

	mounts  map[string]uint64 // mount point, without the leading slash -> the id of its mount
	sources []sourceStamp
	stdio   []int // of the init whose sandbox this is
	// overlays are the descriptors of the sandbox's own overlays, and shown the paths of those that
	// are mounted, by source.
	overlays map[string]int
	shown    map[string]string
	content  []byte // buffer for a file to copy
}

// prepare makes the session's parts in the holder's own namespace, which the tree's namespace then
// copies.
func (s *space) prepare(ops []Op) *MountError {
	for i, o := range ops {
		if o.Kind != Overlay && o.Kind != Home {
			continue
		}
		if _, failed := s.part(o); failed != nil {
			return at(failed, i)
		}
	}
	return nil
}

func at(e *MountError, index int) *MountError {
	e.Index = index
	return e
}

// build must run on a locked thread with a namespace of its own.
func (s *space) build(ops []Op) (_ *builder, failed *MountError) {
	b := &builder{space: s, host: -1, trees: -1, ownMounts: map[uint64]bool{}, mounts: map[string]uint64{}}
	defer func() {
		if failed != nil {
			b.close()
		}
	}()
	fd, failed := memory("mode", "0755", "size", "64m")
	if failed != nil {
		return nil, failed
	}
	err := unix.MoveMount(fd, "", unix.AT_FDCWD, Trees, unix.MOVE_MOUNT_F_EMPTY_PATH)
	unix.Close(fd)
	if err != nil {
		return nil, mountError("move_mount", err)
	}
	if failed := b.open(); failed != nil {
		return nil, failed
	}
	if failed := b.owns(b.trees); failed != nil {
		return nil, failed
	}
	if failed := b.steps(ops); failed != nil {
		return nil, failed
	}
	s.detachShared()
	b.content = nil
	return b, nil
}

// open opens the parents of sources and destinations.
func (b *builder) open() *MountError {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	var err error
	if b.trees, err = unix.Open(Trees, flags, 0); err != nil {
		return mountError("open", err)
	}
	if b.host, err = unix.Open(Host, flags, 0); err != nil {
		return mountError("open", err)
	}
	return nil
}

func (b *builder) close() {
	if b.host >= 0 {
		unix.Close(b.host)
	}
	if b.trees >= 0 {
		unix.Close(b.trees)
	}
	b.host, b.trees = -1, -1
}

// owns records that the file system of fd is the holder's, so that mount points may be made in it.
func (b *builder) owns(fd int) *MountError {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return mountError("fstat", err)
	}
	b.ownMounts[uint64(st.Dev)] = true
	return nil
}

func (b *builder) steps(ops []Op) *MountError {
	for i, o := range ops {
		if failed := b.step(o); failed != nil {
			return at(failed, i)
		}
	}
	return nil
}

func (b *builder) step(o Op) *MountError {
	dest, ok := strings.CutPrefix(o.Dest, "/")
	if !ok || dest == "" || path.Clean(o.Dest) != o.Dest {
		return &MountError{Index: -1, Call: "mounting", Reason: "no destination"}
	}
	if (o.Kind == Bind || o.Kind == ReadOnlyBind || o.Kind == Device || o.Kind == File) && path.Clean("/"+o.Source) != o.Source {
		return &MountError{Index: -1, Call: "mounting", Reason: "no source"}
	}
	switch o.Kind {
	case Root:
		point, failed := b.point(dest, true)
		if failed != nil {
			return failed
		}
		defer unix.Close(point)
		return b.cloneOnto(dest, point, point, "", 0)
	case Bind, ReadOnlyBind:
		attributes := uint64(locked)
		if o.Kind == ReadOnlyBind {
			attributes |= unix.MOUNT_ATTR_RDONLY
		}
		return b.bind(o.Source, dest, attributes)
	case Overlay:
		from, failed := b.space.part(o)
		if failed != nil {
			return failed
		}
		return b.cloneTo(dest, unix.AT_FDCWD, from, true, 0)
	case Home:
		return b.home(o, dest)
	case Directory:
		return b.directory(dest, o.Perms)
	case File:
		return b.copy(o.Source, dest, o.Perms)
	case Text:
		return b.text(o.Source, dest, o.Perms)
	case Symlink:
		return b.symlink(o.Source, dest)
	case ReadOnly:
		fd, err := openBeneath(b.trees, dest)
		if err != nil {
			return mountError("open", err)
		}
		defer unix.Close(fd)
		return setAttributes(fd, unix.MOUNT_ATTR_RDONLY, false)
	case Pin, HideFile, HideDirectory:
		return b.guard(o.Kind, dest)
	case Device:
		return b.device(o.Source, dest)
	case Devices:
		return b.devices(dest, o.Size > 0)
	case Memory, MountPoints:
		fd, failed := b.memory(dest, o.Perms, o.Size)
		if failed == nil {
			unix.Close(fd)
		}
		return failed
	case OwnOverlay:
		return b.ownOverlay(o.Source, dest)
	case Move, Seal, Processes, Pseudoterminals, Console:
		return b.fresh(o, dest)
	}
	return &MountError{Index: -1, Call: "mounting", Reason: "unknown step " + strconv.Itoa(int(o.Kind))}
}

func (b *builder) home(o Op, dest string) *MountError {
	from, failed := b.space.part(o)
	if failed != nil {
		return failed
	}
	if failed := b.cloneTo(dest, unix.AT_FDCWD, from, true, 0); failed != nil {
		return failed
	}
	fd, err := openBeneath(b.trees, dest)
	if err != nil {
		return mountError("opening the home", err)
	}
	defer unix.Close(fd)
	return b.owns(fd)
}

func (b *builder) symlink(text, dest string) *MountError {
	parent, name, failed := b.parent(dest)
	if failed != nil {
		return failed
	}
	defer unix.Close(parent)
	if err := unix.Symlinkat(text, parent, name); err != nil {
		return mountError("symlink", err)
	}
	return nil
}

// absentMount, in mounts, marks a missing path that had to be hidden.
const absentMount = 0

// lostMount, in mounts, marks a path whose mount the host has removed.
const lostMount = math.MaxUint64

// inOwnOverlay reports whether dest is in an overlay of this command's own. Nobody has written
// there, so a missing path was removed on the host since the plan. It can come back before the
// command runs, and nothing would hide it then.
func (b *builder) inOwnOverlay(dest string) bool {
	for _, at := range b.shown {
		if strings.HasPrefix(dest, at+"/") {
			return true
		}
	}
	return false
}

// guard pins or hides what is at dest. In an overlay that can be missing, or of another type,
// because only its lower directory was checked.
func (b *builder) guard(k Kind, dest string) *MountError {
	fd, err := openBeneath(b.trees, dest)
	if err == unix.ENOENT && !b.inOwnOverlay(dest) {
		b.mounts[dest] = absentMount
		return nil
	}
	if err != nil {
		return mountError("opening what is to be hidden", err)
	}
	defer unix.Close(fd)
	if k == Pin {
		return b.cloneOnto(dest, fd, fd, "", 0)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return mountError("fstat", err)
	}
	over := Null
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		over = voidDir
	}
	return b.cloneOnto(dest, fd, unix.AT_FDCWD, over, 0)
}

func (b *builder) bind(source, dest string, attributes uint64) *MountError {
	relative := cmp.Or(source[1:], ".")
	fd, err := openBeneath(b.host, relative)
	if err != nil {
		return mountError("opening "+strconv.Quote(source), err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return mountError("fstat", err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return mountError("opening "+strconv.Quote(source), unix.ELOOP)
	}
	b.sources = append(b.sources, sourceStamp{relative, false, stampOf(&st, false)})
	return b.cloneTo(dest, fd, "", st.Mode&unix.S_IFMT == unix.S_IFDIR, attributes)
}

// cloneTo mounts a copy of what is at source, beneath dir, on dest.
func (b *builder) cloneTo(dest string, dir int, source string, isDir bool, attributes uint64) *MountError {
	point, failed := b.point(dest, isDir)
	if failed != nil {
		return failed
	}
	defer unix.Close(point)
	return b.cloneOnto(dest, point, dir, source, attributes)
}

func (b *builder) cloneOnto(dest string, point, dir int, source string, attributes uint64) *MountError {
	// Recursive even without mounts beneath: mounts inherited from the host are locked together.
	tree, err := unix.OpenTree(dir, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return mountError("open_tree", err)
	}
	defer unix.Close(tree)
	if attributes != 0 {
		if failed := setAttributes(tree, attributes, true); failed != nil {
			return failed
		}
	}
	return b.move(tree, dest, point)
}

// move mounts tree, the top of a mount, on point, which is at dest.
func (b *builder) move(tree int, dest string, point int) *MountError {
	id, err := mountID(tree, "")
	if err != nil {
		return mountError("statx", err)
	}
	if err := unix.MoveMount(tree, "", point, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return mountError("move_mount", err)
	}
	b.mounts[dest] = id
	return nil
}

func mountID(dir int, path string) (uint64, error) {
	var st unix.Statx_t
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	if path == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	if err := unix.Statx(dir, path, flags, unix.STATX_MNT_ID, &st); err != nil {
		return 0, err
	}
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return 0, unix.ENOSYS
	}
	return st.Mnt_id, nil
}

// point opens dest to mount on. It makes a missing one if its directory is the holder's own memory.
func (b *builder) point(dest string, isDir bool) (int, *MountError) {
	fd, err := openBeneath(b.trees, dest)
	if err == unix.ENOENT {
		parent, name, failed := b.parent(dest)
		if failed != nil {
			return -1, failed
		}
		defer unix.Close(parent)
		if isDir {
			err = unix.Mkdirat(parent, name, 0o755)
		} else {
			err = unix.Mknodat(parent, name, unix.S_IFREG|0o644, 0)
		}
		if err == nil || err == unix.EEXIST {
			fd, err = openBeneath(b.trees, dest)
		}
	}
	if err != nil {
		return -1, mountError("opening the mount point", err)
	}
	return fd, nil
}

// parent opens the directory of dest, and makes it in the same way. It refuses one in which nothing
// may be made.
func (b *builder) parent(dest string) (int, string, *MountError) {
	dir, name := path.Split(dest)
	dir = cmp.Or(strings.TrimSuffix(dir, "/"), ".")
	fd, failed := b.point(dir, true)
	if failed != nil {
		return -1, "", failed
	}
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if err == nil && !b.ownMounts[uint64(st.Dev)] {
		// It would be made on the host, and stay there.
		err = unix.ENOENT
	}
	if err != nil {
		unix.Close(fd)
		return -1, "", mountError("making a mount point", err)
	}
	return fd, name, nil
}

// memory mounts memory on dest, in which mount points may be made, and returns its top.
func (b *builder) memory(dest string, perms uint32, size uint64) (int, *MountError) {
	fd, failed := memory("mode", strconv.FormatUint(uint64(perms), 8), "size", strconv.FormatUint(size, 10))
	if failed != nil {
		return -1, failed
	}
	if failed = b.owns(fd); failed == nil {
		failed = b.put(fd, dest, true)
	}
	if failed != nil {
		unix.Close(fd)
		return -1, failed
	}
	return fd, nil
}

// put mounts fd, the top of a mount, on dest.
func (b *builder) put(fd int, dest string, isDir bool) *MountError {
	point, failed := b.point(dest, isDir)
	if failed != nil {
		return failed
	}
	defer unix.Close(point)
	return b.move(fd, dest, point)
}

func (b *builder) directory(dest string, perms uint32) *MountError {
	fd, err := openBeneath(b.trees, dest)
	if err == nil {
		unix.Close(fd)
		return nil
	}
	parent, name, failed := b.parent(dest)
	if failed != nil {
		return failed
	}
	defer unix.Close(parent)
	if err := unix.Mkdirat(parent, name, perms); err != nil {
		return mountError("mkdir", err)
	}
	return nil
}

// text shows a file with memory of its own at dest, where another file may be.
func (b *builder) text(content, dest string, perms uint32) *MountError {
	fd, failed := memory("mode", "0755", "size", strconv.Itoa(len(content)))
	if failed != nil {
		return failed
	}
	defer unix.Close(fd)
	const name = "text"
	made, err := unix.Openat(fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, perms)
	if err != nil {
		return mountError("creating a file", err)
	}
	to := os.NewFile(uintptr(made), name)
	if _, err := to.WriteString(content); err != nil {
		to.Close()
		return mountError("writing a file", err)
	}
	to.Close()
	return b.cloneTo(dest, fd, name, false, locked|unix.MOUNT_ATTR_RDONLY)
}

// maxCopy is larger than every file that a planner copies, in bytes.
const maxCopy = 1 << 20

// copy makes a file of the tree's own.
func (b *builder) copy(source, dest string, perms uint32) *MountError {
	fd, err := openBeneath(b.host, source[1:])
	if err != nil {
		return mountError("opening "+strconv.Quote(source), err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return mountError("fstat", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return &MountError{Index: -1, Call: "opening " + strconv.Quote(source), Reason: "is not a regular file any more"}
	}
	b.sources = append(b.sources, sourceStamp{source[1:], true, stampOf(&st, true)})
	content, err := b.read(fd)
	if err != nil {
		return mountError("reading "+strconv.Quote(source), err)
	}
	parent, name, failed := b.parent(dest)
	if failed != nil {
		return failed
	}
	defer unix.Close(parent)
	// A child that another tree's thread forks also has the file, until an exec closes it. A file
	// that somebody can write to cannot become read-only then.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	made, err := unix.Openat(parent, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC|unix.O_NOFOLLOW, perms)
	if err != nil {
		return mountError("creating a file", err)
	}
	defer unix.Close(made)
	for len(content) > 0 {
		n, err := unix.Write(made, content)
		if err != nil && err != unix.EINTR {
			return mountError("copying "+strconv.Quote(source), err)
		}
		content = content[max(n, 0):]
	}
	return nil
}

// read returns the content of the file behind the O_PATH descriptor fd, valid until the next call.
// A tree has dozens of such files: a buffer for each, and Go's poller, took as long as its mounts.
func (b *builder) read(fd int) ([]byte, error) {
	from, err := unix.Open(fdPath+strconv.Itoa(fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(from)
	if b.content == nil {
		b.content = make([]byte, maxCopy)
	}
	for have := 0; ; {
		n, err := unix.Read(from, b.content[have:])
		if n == 0 && err == nil { // at its end, or full
			if have == maxCopy { // it has grown since the plan
				return nil, unix.EFBIG
			}
			return b.content[:have], nil
		}
		if err != nil && err != unix.EINTR {
			return nil, err
		}
		have += max(n, 0)
	}
}
