package holder

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// space is the holder's file system: memory as the root, the host's tree in Host, and the session's
// parts. Trees are made in copies of it.
type space struct {
	dir   int // the holder's own directory on the host; negative for none
	watch *watch

	mu     sync.Mutex
	parts  map[Op]string // the path of each overlay and home, by Kind, Source, Perms and Size
	proven bool          // overlays work on the session's file system
}

const (
	partsDir = "/.part"
	voidDir  = "/.void" // an empty directory that nobody may enter
)

// maxShared bounds overlays and homes: a session has a handful.
const maxShared = 256

func mountError(call string, err error) *MountError {
	return &MountError{Index: -1, Call: call, Reason: err.Error(), Errno: errnoOf(err)}
}

func errnoOf(err error) (errno syscall.Errno) {
	errors.As(err, &errno)
	return errno
}

// newSpace turns the root of this process's own mount namespace into one. Nobody can look in from
// outside, and a recursive bind of Host is the host's tree without the holder's parts.
func newSpace(dir int) (*space, *MountError) {
	// The mounts here are the host's slaves. If this namespace owns the host's root, as for a
	// holder without one, they must become so.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return nil, mountError("making the mounts slaves", err)
	}
	names, err := topLevel()
	if err != nil {
		return nil, mountError("reading the root directory", err)
	}
	root, failed := memory("mode", "0755")
	if failed != nil {
		return nil, failed
	}
	defer unix.Close(root)
	// Any directory will do: the next steps uncover it again.
	const at = "/tmp"
	if err := unix.MoveMount(root, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return nil, mountError("mounting the root", err)
	}
	for _, d := range [...]struct {
		name string
		mode uint32
	}{{Host, 0o755}, {Trees, 0o755}, {partsDir, 0o755}, {voidDir, 0}} {
		if err := unix.Mkdir(at+d.name, d.mode); err != nil {
			return nil, mountError("mkdir "+d.name, err)
		}
	}
	if err := os.WriteFile(at+Null, nil, 0o600); err != nil {
		return nil, mountError("creating "+Null, err)
	}
	// So that an init finds its loader, its libraries, /proc and /dev.
	for _, name := range names {
		if err := unix.Symlink(Host[1:]+"/"+name, at+"/"+name); err != nil && err != unix.EEXIST {
			return nil, mountError("linking "+name, err)
		}
	}
	if err := unix.PivotRoot(at, at+Host); err != nil {
		return nil, mountError("pivot_root", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return nil, mountError("chdir", err)
	}
	for _, m := range [...]struct {
		source, at string
		flags      uint
	}{{"/dev/null", Null, 0}, {voidDir, voidDir, 0}} {
		if failed := bindPath(m.source, m.at, unix.MOUNT_ATTR_RDONLY|locked); failed != nil {
			return nil, failed
		}
	}
	watch, err := newWatch()
	if err != nil {
		return nil, mountError("watching the host's mounts", err)
	}
	return &space{dir: dir, watch: watch, parts: map[Op]string{}}, nil
}

func topLevel() ([]string, error) {
	d, err := os.Open("/")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// locked are the attributes of every mount that a command sees.
const locked = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// memory makes a detached file system in memory.
func memory(options ...string) (int, *MountError) { return fileSystem("tmpfs", locked, options...) }

// fileSystem makes a detached file system.
func fileSystem(kind string, attributes int, options ...string) (int, *MountError) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, mountError("fsopen "+kind, err)
	}
	defer unix.Close(fs)
	for i := 0; i+1 < len(options); i += 2 {
		if err := unix.FsconfigSetString(fs, options[i], options[i+1]); err != nil {
			return -1, mountError("fsconfig "+kind+" "+options[i], err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, mountError("fsconfig "+kind, err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return -1, mountError("fsmount "+kind, err)
	}
	return fd, nil
}

// bindPath binds a path of the holder's own.
func bindPath(source, at string, attributes uint64) *MountError {
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return mountError("open_tree "+source, err)
	}
	defer unix.Close(fd)
	if failed := setAttributes(fd, attributes, true); failed != nil {
		return failed
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return mountError("move_mount "+at, err)
	}
	return nil
}

// setAttributes sets attributes on the mount of fd or, recursive, on all mounts of a copy, which
// then receives no propagation.
func setAttributes(fd int, attributes uint64, recursive bool) *MountError {
	flags, attr := uint(unix.AT_EMPTY_PATH), unix.MountAttr{Attr_set: attributes}
	if recursive {
		flags |= unix.AT_RECURSIVE
		attr.Propagation = unix.MS_PRIVATE
	}
	if err := unix.MountSetattr(fd, "", flags, &attr); err != nil {
		return mountError("mount_setattr", err)
	}
	return nil
}

// part returns the path of what the session's commands share: the overlay of a source, or memory that
// lives as long as the holder. An overlay is one kernel mount for a session, for all its
// definitions and commands, because two mounts of one upper directory are undefined.
func (s *space) part(o Op) (string, *MountError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := Op{Kind: o.Kind, Source: o.Source, Perms: o.Perms, Size: o.Size}
	if at, ok := s.parts[key]; ok {
		return at, nil
	}
	if len(s.parts) >= maxShared {
		return "", &MountError{Index: -1, Call: "making an overlay or a home", Reason: "there are too many in this session"}
	}
	var fd int
	var failed *MountError
	if o.Kind == Overlay {
		fd, failed = s.makeOverlay(o.Source)
	} else {
		fd, failed = memory("mode", strconv.FormatUint(uint64(o.Perms), 8), "size", strconv.FormatUint(o.Size, 10))
	}
	if failed != nil {
		return "", failed
	}
	defer unix.Close(fd)
	at := partsDir + "/" + strconv.Itoa(len(s.parts))
	if failed := s.attach(fd, at); failed != nil {
		return "", failed
	}
	s.parts[key] = at
	return at, nil
}

// detachShared removes the session's shared mounts from the caller's copy of the space, in which
// the tree has its own: each init copies every mount.
func (s *space) detachShared() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.parts {
		unix.Unmount(at, unix.MNT_DETACH)
	}
}

func (s *space) attach(fd int, at string) *MountError {
	if err := unix.Mkdir(at, 0o755); err != nil && err != unix.EEXIST {
		return mountError("mkdir "+at, err)
	}
	return s.watch.ignoreOwn(func() *MountError {
		if err := unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return mountError("move_mount "+at, err)
		}
		return nil
	})
}

func (s *space) detach(at string) {
	s.watch.ignoreOwn(func() *MountError {
		unix.Unmount(at, unix.MNT_DETACH)
		return nil
	})
	unix.Rmdir(at)
}

// busyPatience is how long the mount of a dead holder may still exist: at its end the kernel writes
// all that is unwritten of the file system of its layers to the disk. busyStep is the time between
// two tries: the kernel has nothing to wait on.
const (
	busyPatience = time.Minute
	busyStep     = 5 * time.Millisecond
)

// patiently repeats what fails only because an earlier mount still exists.
func patiently(try func() error) error {
	for deadline := time.Now().Add(busyPatience); ; {
		err := try()
		if err != unix.EBUSY || time.Now().After(deadline) {
			return err
		}
		<-time.After(busyStep)
	}
}
