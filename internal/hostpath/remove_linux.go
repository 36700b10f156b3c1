package hostpath

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// chmodDir gives the directory name in parent mode 0700 and follows no
// symlink: one put there in time would have another file's mode changed.
func chmodDir(parent int, name string) error {
	err := unix.Fchmodat(parent, name, 0o700, unix.AT_SYMLINK_NOFOLLOW)
	if err != unix.EOPNOTSUPP {
		return err
	}
	// Before Linux 6.6 there is no such call; O_PATH needs no right to the
	// directory, and /proc leads from the descriptor to it.
	fd, err := Openat(parent, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700)
}

// mountRoot reports whether the directory fd is where something is mounted,
// where the kernel tells, which is from Linux 5.8 on.
func mountRoot(fd int) bool {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, 0, &st)
	return err == nil && st.Attributes_mask&st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
