//go:build unix && !linux

package hostpath

import "golang.org/x/sys/unix"

// chmodDir gives the directory name in parent mode 0700. It follows no symlink: somebody could put
// one there to change another file's mode.
func chmodDir(parent int, name string) error {
	return unix.Fchmodat(parent, name, 0o700, unix.AT_SYMLINK_NOFOLLOW)
}

// mountRoot cannot know; a mount in a cache directory belongs to its user.
func mountRoot(int) bool { return false }
