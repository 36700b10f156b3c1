package holder

import (
	"cmp"
	"errors"
	"math"
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

func newBuilder(s *space, stdio []int) *builder {
	return &builder{space: s, stdio: stdio, host: -1, trees: -1, ownMounts: map[uint64]bool{}, mounts: map[string]uint64{}, overlays: map[string]int{}, shown: map[string]string{}}
}

// prepare makes the session's parts in the holder's own namespace, which the tree's namespace then
// copies.
func (s *space) prepare(ops []Op) error {
	for i, o := range ops {
		if o.Kind != Overlay && o.Kind != Home {
			continue
		}
		if _, err := s.part(o); err != nil {
			return at(err, i)
		}
	}
	return nil
}

// at names the step of an error.
func at(err error, index int) error {
	e := message(err)
	e.Index = index
	return e
}

// build must run on a locked thread with a namespace of its own.
func (s *space) build(ops []Op) (_ *builder, err error) {
	b := newBuilder(s, nil)
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	fd, err := memory(0o755, 64<<20)
	if err != nil {
		return nil, err
	}
	err = mountError("move_mount", unix.MoveMount(fd, "", unix.AT_FDCWD, Trees, unix.MOVE_MOUNT_F_EMPTY_PATH))
	unix.Close(fd)
	if err == nil {
		err = b.open()
	}
	if err == nil {
		err = b.owns(b.trees)
	}
	if err == nil {
		err = b.steps(ops)
	}
	if err != nil {
		return nil, err
	}
	s.detachShared()
	b.content = nil
	return b, nil
}

// open opens the parents of sources and destinations.
func (b *builder) open() (err error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	if b.trees, err = unix.Open(Trees, flags, 0); err == nil {
		b.host, err = unix.Open(Host, flags, 0)
	}
	return mountError("open", err)
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
func (b *builder) owns(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return mountError("fstat", err)
	}
	b.ownMounts[uint64(st.Dev)] = true
	return nil
}

func (b *builder) steps(ops []Op) error {
	for i, o := range ops {
		if err := b.step(o); err != nil {
			return at(err, i)
		}
	}
	return nil
}

// bindAttributes are those of the mounts of a step that binds. Commands can write to a device in a
// read-only mount, but a command of root cannot change its mode, which is the host's.
var bindAttributes = map[Kind]uint64{
	Bind: locked, ReadOnlyBind: locked | unix.MOUNT_ATTR_RDONLY,
	Device: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC,
}

func (b *builder) step(o Op) error {
	dest, ok := strings.CutPrefix(o.Dest, "/")
	if !ok || dest == "" || path.Clean(o.Dest) != o.Dest {
		return mountError("mounting", errors.New("no destination"))
	}
	attributes, binds := bindAttributes[o.Kind]
	if (binds || o.Kind == File) && path.Clean("/"+o.Source) != o.Source {
		return mountError("mounting", errors.New("no source"))
	}
	switch o.Kind {
	case Root:
		return b.onto(dest, true, func(point int) error { return b.clone(dest, point, point, "", 0) })
	case Bind, ReadOnlyBind, Device:
		return b.bind(o.Source, dest, attributes)
	case Overlay, Home:
		return b.sharedPart(o, dest)
	case Directory:
		return b.directory(dest, o.Perms)
	case File:
		return b.copy(o.Source, dest, o.Perms)
	case Text:
		return b.text(o.Source, dest, o.Perms)
	case Symlink:
		return b.within(dest, func(dir int, name string) error {
			return mountError("symlink", unix.Symlinkat(o.Source, dir, name))
		})
	case ReadOnly:
		return b.at(dest, func(fd int) error { return setAttributes(fd, unix.MOUNT_ATTR_RDONLY, false) })
	case Pin, HideFile, HideDirectory:
		return b.guard(o.Kind, dest)
	case Devices:
		return b.devices(dest, o.Size > 0)
	case Memory, MountPoints:
		fd, err := b.memory(dest, o.Perms, o.Size)
		if err == nil {
			unix.Close(fd)
		}
		return err
	case OwnOverlay:
		return b.ownOverlay(o.Source, dest)
	case Move:
		// Moved, not copied: the kernel omits from a copy the mounts on something that the host has
		// just moved out of the tree's top, as it does with a stub.
		return b.at(strings.TrimPrefix(o.Source, "/"), func(fd int) error {
			isDir, err := isDirectory(fd)
			if err != nil {
				return err
			}
			return b.put(fd, dest, isDir)
		})
	case Seal:
		return b.at(dest, func(fd int) error { return b.clone(dest, fd, fd, "", unix.MOUNT_ATTR_RDONLY|locked) })
	case Processes:
		return b.mount(dest, "proc", locked|unix.MOUNT_ATTR_NOEXEC)
	case Pseudoterminals:
		return b.mount(dest, "devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, "ptmxmode", "0666", "mode", "0620")
	case Console:
		return b.console(dest)
	}
	return mountError("mounting", errors.New("unknown step "+strconv.Itoa(int(o.Kind))))
}

// at does something with what is at dest.
func (b *builder) at(dest string, do func(fd int) error) error {
	fd, err := openBeneath(b.trees, dest)
	if err != nil {
		return mountError("open", err)
	}
	defer unix.Close(fd)
	return do(fd)
}

func isDirectory(fd int) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return st.Mode&unix.S_IFMT == unix.S_IFDIR, mountError("fstat", err)
}

// sharedPart shows an overlay or a home of the session.
func (b *builder) sharedPart(o Op, dest string) error {
	from, err := b.space.part(o)
	if err == nil {
		err = b.cloneTo(dest, unix.AT_FDCWD, from, true, 0)
	}
	if err != nil || o.Kind == Overlay {
		return err
	}
	return b.at(dest, b.owns)
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
func (b *builder) guard(k Kind, dest string) error {
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
		// Never a peer of the mount around it: what is put back on either would be mounted on both, and
		// twice as often with each pin on the way.
		return b.clone(dest, fd, fd, "", locked)
	}
	isDir, err := isDirectory(fd)
	if err != nil {
		return err
	}
	over := Null
	if isDir {
		over = voidDir
	}
	return b.clone(dest, fd, unix.AT_FDCWD, over, 0)
}

func (b *builder) bind(source, dest string, attributes uint64) error {
	fd, st, err := openSourceIn(b.host, source)
	if err != nil {
		return mountError("opening "+strconv.Quote(source), err)
	}
	defer unix.Close(fd)
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return mountError("opening "+strconv.Quote(source), unix.ELOOP)
	}
	b.sources = append(b.sources, sourceStamp{dest, source, false, stampOf(&st, false)})
	return b.cloneTo(dest, fd, "", st.Mode&unix.S_IFMT == unix.S_IFDIR, attributes)
}

// cloneTo mounts a copy of what is at source, beneath dir, on dest.
func (b *builder) cloneTo(dest string, dir int, source string, isDir bool, attributes uint64) error {
	return b.onto(dest, isDir, func(point int) error { return b.clone(dest, point, dir, source, attributes) })
}

// clone is cloneTo with the open mount point.
func (b *builder) clone(dest string, point, dir int, source string, attributes uint64) error {
	// Recursive even without mounts beneath: mounts inherited from the host are locked together.
	tree, err := unix.OpenTree(dir, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return mountError("open_tree", err)
	}
	defer unix.Close(tree)
	if attributes != 0 {
		if err := setAttributes(tree, attributes, true); err != nil {
			return err
		}
	}
	return b.move(tree, dest, point)
}

// move mounts tree, the top of a mount, on point, which is at dest.
func (b *builder) move(tree int, dest string, point int) error {
	id, err := mountID(tree, "")
	if err != nil {
		return mountError("statx", err)
	}
	if err = unix.MoveMount(tree, "", point, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err == nil {
		b.mounts[dest] = id
	}
	return mountError("move_mount", err)
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

// onto opens dest to mount on it. It makes a missing one if its directory is the holder's own memory.
func (b *builder) onto(dest string, isDir bool, mount func(point int) error) error {
	fd, err := b.point(dest, isDir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return mount(fd)
}

func (b *builder) point(dest string, isDir bool) (int, error) {
	fd, err := openBeneath(b.trees, dest)
	if err == unix.ENOENT {
		if failed := b.within(dest, func(dir int, name string) error {
			if isDir {
				err = unix.Mkdirat(dir, name, 0o755)
			} else {
				err = unix.Mknodat(dir, name, unix.S_IFREG|0o644, 0)
			}
			return nil
		}); failed != nil {
			return -1, failed
		}
		if err == nil || err == unix.EEXIST {
			fd, err = openBeneath(b.trees, dest)
		}
	}
	return fd, mountError("opening the mount point", err)
}

// within opens the directory of dest to make something there, and makes it in the same way. It
// refuses one in which nothing may be made.
func (b *builder) within(dest string, do func(dir int, name string) error) error {
	dir, name := path.Split(dest)
	return b.onto(cmp.Or(strings.TrimSuffix(dir, "/"), "."), true, func(fd int) error {
		var st unix.Stat_t
		err := unix.Fstat(fd, &st)
		if err == nil && !b.ownMounts[uint64(st.Dev)] {
			// It would be made on the host, and stay there.
			err = unix.ENOENT
		}
		if err != nil {
			return mountError("making a mount point", err)
		}
		return do(fd, name)
	})
}

// memory mounts memory on dest, in which mount points may be made, and returns its top.
func (b *builder) memory(dest string, perms uint32, size uint64) (int, error) {
	fd, err := memory(perms, size)
	if err != nil {
		return -1, err
	}
	if err = b.owns(fd); err == nil {
		err = b.put(fd, dest, true)
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, err
}

// put mounts fd, the top of a mount, on dest.
func (b *builder) put(fd int, dest string, isDir bool) error {
	return b.onto(dest, isDir, func(point int) error { return b.move(fd, dest, point) })
}

// mount mounts a new file system on dest.
func (b *builder) mount(dest, kind string, attributes int, options ...string) error {
	fd, err := fileSystem(kind, attributes, options...)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return b.put(fd, dest, true)
}

func (b *builder) directory(dest string, perms uint32) error {
	fd, err := openBeneath(b.trees, dest)
	if err == nil {
		unix.Close(fd)
		return nil
	}
	return b.within(dest, func(dir int, name string) error {
		return mountError("mkdir", unix.Mkdirat(dir, name, perms))
	})
}

// text shows a file with memory of its own at dest, where another file may be.
func (b *builder) text(content, dest string, perms uint32) error {
	fd, err := memory(0o755, uint64(len(content)))
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	const name = "text"
	if err := makeFile(fd, name, perms, []byte(content)); err != nil {
		return mountError("writing a file", err)
	}
	return b.cloneTo(dest, fd, name, false, locked|unix.MOUNT_ATTR_RDONLY)
}

// makeFile makes a file.
func makeFile(dir int, name string, perms uint32, content []byte) error {
	// A child that another tree's thread forks also has the file, until an exec closes it. A file
	// that somebody can write to cannot become read-only then.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	made, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC|unix.O_NOFOLLOW, perms)
	if err != nil {
		return err
	}
	defer unix.Close(made)
	for len(content) > 0 {
		n, err := unix.Write(made, content)
		if err != nil && err != unix.EINTR {
			return err
		}
		content = content[max(n, 0):]
	}
	return nil
}

// maxCopy is larger than every file that a planner copies, in bytes.
const maxCopy = 1 << 20

// copy makes a file of the tree's own.
func (b *builder) copy(source, dest string, perms uint32) error {
	fd, st, err := openSourceIn(b.host, source)
	if err != nil {
		return mountError("opening "+strconv.Quote(source), err)
	}
	defer unix.Close(fd)
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return mountError("opening "+strconv.Quote(source), errors.New("is not a regular file any more"))
	}
	b.sources = append(b.sources, sourceStamp{dest, source, true, stampOf(&st, true)})
	content, err := b.read(fd)
	if err != nil {
		return mountError("reading "+strconv.Quote(source), err)
	}
	return b.within(dest, func(dir int, name string) error {
		return mountError("copying "+strconv.Quote(source), makeFile(dir, name, perms, content))
	})
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
