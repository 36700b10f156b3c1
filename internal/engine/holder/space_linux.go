package holder

import (
	"errors"
	"os"
	"strconv"
	"sync"
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

// mountError is a *[MountError], or nil without an error.
func mountError(call string, err error) error {
	if err == nil {
		return nil
	}
	e := &MountError{Index: -1, Call: call, Reason: err.Error()}
	errors.As(err, &e.Errno)
	return e
}

// message is a *[MountError] for the other end; nil if there is no error.
func message(err error) *MountError {
	if err == nil {
		return nil
	}
	e, ok := err.(*MountError)
	if !ok {
		e, _ = mountError("holder", err).(*MountError)
	}
	return e
}

// newSpace turns the root of this process's own mount namespace into one. Nobody can look in from
// outside, and a recursive bind of Host is the host's tree without the holder's parts.
func newSpace(dir int) (*space, error) {
	// The mounts here are the host's slaves. If this namespace owns the host's root, as for a
	// holder without one, they must become so.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return nil, mountError("making the mounts slaves", err)
	}
	entries, err := os.ReadDir("/")
	if err != nil {
		return nil, mountError("reading the root directory", err)
	}
	root, err := fileSystem("tmpfs", locked, "mode", "0755")
	if err != nil {
		return nil, err
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
	for _, e := range entries {
		if err := unix.Symlink(Host[1:]+"/"+e.Name(), at+"/"+e.Name()); err != nil && err != unix.EEXIST {
			return nil, mountError("linking "+e.Name(), err)
		}
	}
	if err := unix.PivotRoot(at, at+Host); err != nil {
		return nil, mountError("pivot_root", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return nil, mountError("chdir", err)
	}
	for _, m := range [...][2]string{{"/dev/null", Null}, {voidDir, voidDir}} {
		if err := bindPath(m[0], m[1], unix.MOUNT_ATTR_RDONLY|locked); err != nil {
			return nil, err
		}
	}
	watch, err := newWatch()
	return &space{dir: dir, watch: watch, parts: map[Op]string{}}, mountError("watching the host's mounts", err)
}

// locked are the attributes of every mount that a command sees.
const locked = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// memory makes a detached file system in memory, of at most size bytes.
func memory(perms uint32, size uint64) (int, error) {
	return fileSystem("tmpfs", locked, "mode", strconv.FormatUint(uint64(perms), 8), "size", strconv.FormatUint(size, 10))
}

// fileSystem makes a detached file system.
func fileSystem(kind string, attributes int, options ...string) (int, error) {
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
	return fd, mountError("fsmount "+kind, err)
}

// bindPath binds a path of the holder's own.
func bindPath(source, at string, attributes uint64) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return mountError("open_tree "+source, err)
	}
	defer unix.Close(fd)
	if err := setAttributes(fd, attributes, true); err != nil {
		return err
	}
	return mountError("move_mount "+at, unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH))
}

// setAttributes sets attributes on the mount of fd or, recursive, on all mounts of a copy, which
// then receives no propagation.
func setAttributes(fd int, attributes uint64, recursive bool) error {
	flags, attr := uint(unix.AT_EMPTY_PATH), unix.MountAttr{Attr_set: attributes}
	if recursive {
		flags |= unix.AT_RECURSIVE
		attr.Propagation = unix.MS_PRIVATE
	}
	return mountError("mount_setattr", unix.MountSetattr(fd, "", flags, &attr))
}

// part returns the path of what the session's commands share: the overlay of a source, or memory that
// lives as long as the holder. An overlay is one kernel mount for a session, for all its
// definitions and commands, because two mounts of one upper directory are undefined.
func (s *space) part(o Op) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := Op{Kind: o.Kind, Source: o.Source, Perms: o.Perms, Size: o.Size}
	if at, ok := s.parts[key]; ok {
		return at, nil
	}
	if len(s.parts) >= maxShared {
		return "", mountError("making an overlay or a home", errors.New("there are too many in this session"))
	}
	var fd int
	var err error
	if o.Kind == Overlay {
		fd, err = s.makeOverlay(o.Source)
	} else {
		fd, err = memory(o.Perms, o.Size)
	}
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	at := partsDir + "/" + strconv.Itoa(len(s.parts))
	if err := s.attach(fd, at); err != nil {
		return "", err
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

func (s *space) attach(fd int, at string) (err error) {
	if err := unix.Mkdir(at, 0o755); err != nil && err != unix.EEXIST {
		return mountError("mkdir "+at, err)
	}
	s.watch.ignoreOwn(func() { err = unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH) })
	return mountError("move_mount "+at, err)
}

func (s *space) detach(at string) {
	s.watch.ignoreOwn(func() { unix.Unmount(at, unix.MNT_DETACH) })
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
