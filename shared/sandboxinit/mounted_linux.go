package sandboxinit

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// inPlace refuses a view that is not as the launcher was told to make it.
func inPlace(mounts []Mount) *ExecError {
	for _, m := range mounts {
		st, err := look(m)
		switch {
		case err == unix.ELOOP && !m.Links:
			err = syscall.ESTALE
		case err != nil:
		case st.Attributes_mask&st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0, // and on kernels before 5.8, which do not tell
			m.Ino != 0 && (st.Ino != m.Ino || unix.Mkdev(st.Dev_major, st.Dev_minor) != m.Dev):
			err = syscall.ESTALE
		}
		if err != nil {
			return execError(OpMounts, m.Path, err)
		}
	}
	return nil
}

func look(m Mount) (st unix.Statx_t, err error) {
	const flags = unix.O_PATH | unix.O_CLOEXEC
	var fd int
	if m.Links {
		fd, err = unix.Open(m.Path, flags, 0)
	} else {
		fd, err = unix.Openat2(unix.AT_FDCWD, m.Path, &unix.OpenHow{Flags: flags | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS})
	}
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	return st, unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO, &st)
}
