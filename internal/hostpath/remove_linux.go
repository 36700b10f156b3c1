package hostpath

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// chmodDir gives the directory name in parent mode 0700. It follows no symlink: somebody could put
// one there to change another file's mode.
func chmodDir(parent int, name string) error {
	err := unix.Fchmodat(parent, name, 0o700, unix.AT_SYMLINK_NOFOLLOW)
	if err != unix.EOPNOTSUPP {
		return err
	}
	// Before Linux 6.6 there is no such call. O_PATH needs no right to the directory, and /proc
	// leads from the descriptor to it.
	fd, err := Openat(parent, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700)
}

// mountRoot reports whether something is mounted on the directory fd. The kernel reports this since
// Linux 5.8.
func mountRoot(fd int) bool {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, 0, &st)
	return err == nil && st.Attributes_mask&st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
