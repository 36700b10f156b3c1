package holder

import "golang.org/x/sys/unix"

// nodes are the devices that every program may use, links what else is in a
// /dev.
var (
	nodes = [...]string{"null", "zero", "full", "random", "urandom", "tty"}
	links = [...][2]string{
		{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
		{"core", "/proc/kcore"}, {"ptmx", "pts/ptmx"},
	}
)

// devices makes what is in /dev, once for all inits. Through them, and a [Device], alone a device can be used. console makes
// what a terminal is mounted on.
func (b *builder) devices(dest string, console bool) *MountError {
	fd, failed := b.memory(dest, 0o755, 64<<10)
	if failed != nil {
		return failed
	}
	defer unix.Close(fd)
	for _, name := range nodes {
		if failed := b.device("/dev/"+name, dest+"/"+name); failed != nil {
			return failed
		}
	}
	if console {
		if err := unix.Mknodat(fd, "console", unix.S_IFREG, 0); err != nil {
			return mountError("mknod", err)
		}
	}
	for _, l := range links {
		if err := unix.Symlinkat(l[1], fd, l[0]); err != nil {
			return mountError("symlink", err)
		}
	}
	return nil
}

// device shows one. It can be written to in a read-only mount, but its mode, which is the host's,
// cannot be changed by a command of root's.
func (b *builder) device(source, dest string) *MountError {
	return b.bind(source, dest, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
}
