package holder

import "golang.org/x/sys/unix"

// nodes are the devices that every program may use, and links the other entries of a /dev.
var (
	nodes = [...]string{"null", "zero", "full", "random", "urandom", "tty"}
	links = [...][2]string{
		{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
		{"core", "/proc/kcore"}, {"ptmx", "pts/ptmx"},
	}
)

// devices makes the contents of /dev, once for all inits. Commands can use devices only through
// these, and through a [Device]. console makes the mount point of a terminal.
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

// device shows one. Commands can write to it in a read-only mount, but a command of root cannot
// change its mode, which is the host's.
func (b *builder) device(source, dest string) *MountError {
	return b.bind(source, dest, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
}
