package hostpath

import "golang.org/x/sys/unix"

// OpenNoSymlinks opens a clean absolute path, and fails with ELOOP if any component of it is a
// symlink.
func OpenNoSymlinks(path string, flag int, perm uint32) (int, error) {
	return Openat(unix.AT_FDCWD, path, flag|unix.O_NOFOLLOW_ANY, perm)
}
