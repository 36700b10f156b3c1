package sessiondir

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/hostpath"
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
	fd, err := hostpath.Openat(parent, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
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

// removeMapped removes a tree with files of users that this one's user namespaces
// are mapped to (/etc/subuid), as rootless containers leave them: only in such a
// namespace has this user rights to them. It needs newuidmap and an unshare that
// knows of it, and the tree must be out of every other process's reach.
func removeMapped(ctx context.Context, path string) error {
	// By their paths and with an environment of ours: the caller's PATH is not
	// asked, which a workspace may have put something in.
	cmd := exec.CommandContext(ctx, "/usr/bin/unshare", "--user", "--map-root-user", "--map-auto", "--", "/bin/rm", "-rf", "--one-file-system", "--", path)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	cmd.Dir = "/"
	return cmd.Run()
}
