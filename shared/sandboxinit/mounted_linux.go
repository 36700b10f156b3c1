package sandboxinit

import (
	"os"
	"strconv"
	"strings"
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

// inPlace refuses a view that is not as the launcher was told to make it.
func inPlace(mounts []Mount) *ExecError {
	if len(mounts) == 0 {
		return nil
	}
	at, err := mountedAt()
	if err != nil {
		return execError(OpMounts, "/proc/self/mountinfo", err)
	}
	for _, m := range mounts {
		// By the kernel's list, which has no symlinks in it; and what the path shows
		// must be on that very mount.
		var st unix.Statx_t
		err := unix.Statx(unix.AT_FDCWD, m.Path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_INO|unix.STATX_MNT_ID, &st)
		if err != nil {
			return execError(OpMounts, m.Path, err)
		}
		id, there := at[inList.Replace(m.Path)]
		if !there || st.Mask&unix.STATX_MNT_ID != 0 && st.Mnt_id != id || m.Ino != 0 && (st.Ino != m.Ino || unix.Mkdev(st.Dev_major, st.Dev_minor) != m.Dev) {
			return execError(OpMounts, m.Path, syscall.ESTALE)
		}
	}
	return nil
}

// mountedAt gives the mount that lies on top at each path, as the kernel spells it.
func mountedAt() (map[string]uint64, error) {
	list, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	at := map[string]uint64{}
	for line := range strings.Lines(string(list)) {
		if fields := strings.SplitN(line, " ", 6); len(fields) == 6 {
			id, _ := strconv.ParseUint(fields[0], 10, 64)
			at[fields[4]] = id // the last one lies on top
		}
	}
	return at, nil
}

// inList spells a path as the kernel's list does.
var inList = strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`)
