package sandboxinit

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// mountedOn is an error where nothing is mounted on path, or the kernel, before
// 5.8, does not tell.
func mountedOn(path string) error {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_NO_AUTOMOUNT, 0, &st); err != nil {
		return err
	}
	if st.Attributes_mask&st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return syscall.EINVAL
	}
	return nil
}
