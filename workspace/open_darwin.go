package workspace

import "golang.org/x/sys/unix"

// openNoSymlinks opens a clean absolute path in which no component is a
// symlink; O_NOFOLLOW_ANY gives ELOOP for one anywhere on the way.
func openNoSymlinks(path string, flag int, perm uint32) (int, error) {
	for {
		fd, err := unix.Open(path, flag|unix.O_NOFOLLOW_ANY, perm)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
