package holder

import (
	"os"

	"golang.org/x/sys/unix"
)

// nodes are the devices that every program may use, links what else is in a
// /dev: those that bubblewrap makes.
var (
	nodes = [...]string{"null", "zero", "full", "random", "urandom", "tty"}
	links = [...][2]string{
		{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
		{"core", "/proc/kcore"}, {"ptmx", "pts/ptmx"},
	}
)

// devices makes what is in /dev once for all launchers, where bubblewrap makes
// each of its mounts for each of them, and reads the whole mount table after each.
// They are the only mounts of a tree through which a device can be used.
func (b *builder) devices(dest string) *MountError {
	fd, failed := memory("mode", "0755", "size", "64k")
	if failed != nil {
		return failed
	}
	defer unix.Close(fd)
	point, failed := b.point(dest, true)
	if failed != nil {
		return failed
	}
	defer unix.Close(point)
	if err := unix.MoveMount(fd, "", point, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return mountError("move_mount", err)
	}
	if failed := b.owns(fd); failed != nil {
		return failed
	}
	for _, name := range nodes {
		// A device can be written to in a read-only mount, but its mode, which is
		// the host's, cannot be changed by a command of root's.
		if failed := b.bind("/dev/"+name, dest+"/"+name, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); failed != nil {
			return failed
		}
	}
	for _, l := range links {
		if err := unix.Symlinkat(l[1], fd, l[0]); err != nil {
			return mountError("symlink", err)
		}
	}
	return nil
}

// withTerminals runs fork with a devpts of its own mounted: shared, it would let
// the commands of a session open one another's terminals.
func (b *builder) withTerminals(fork func() *MountError) *MountError {
	at := Trees + "/" + b.terminals
	fs, err := unix.Fsopen("devpts", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return mountError("fsopen devpts", err)
	}
	defer unix.Close(fs)
	for _, o := range [...][2]string{{"ptmxmode", "0666"}, {"mode", "0620"}} {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			return mountError("fsconfig devpts "+o[0], err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return mountError("creating a devpts", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return mountError("fsmount devpts", err)
	}
	defer unix.Close(fd)
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return mountError("move_mount", err)
	}
	failed := fork()
	if err := unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && failed == nil {
		// The next launcher would mount its own over it and see that alone.
		os.Stderr.WriteString("unmounting terminals: " + err.Error() + "\n")
	}
	return failed
}
