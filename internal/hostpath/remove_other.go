//go:build unix && !linux

package hostpath

import "golang.org/x/sys/unix"

// chmodDir gives the directory name in parent mode 0700 and follows no
// symlink: one put there in time would have another file's mode changed.
func chmodDir(parent int, name string) error {
	return unix.Fchmodat(parent, name, 0o700, unix.AT_SYMLINK_NOFOLLOW)
}

// mountRoot has nobody to ask; what is mounted in a cache directory is its user's.
func mountRoot(int) bool { return false }
