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
func (b *builder) devices(dest string, console bool) error {
	fd, err := b.memory(dest, 0o755, 64<<10)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, name := range nodes {
		if err := b.bind("/dev/"+name, dest+"/"+name, bindAttributes[Device]); err != nil {
			return err
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
