//go:build unix && !linux

package dial

import (
	"errors"

	"golang.org/x/sys/unix"
)

// waitReadable waits until fd can be read without waiting or wake is closed.
// It uses select because poll knows no terminals on darwin. A descriptor that
// is too high for select is read at once, so that a command's end does not
// release it before its next input comes.
func waitReadable(fd, wake int) (woken bool, err error) {
	if max(fd, wake) >= unix.FD_SETSIZE {
		return false, nil
	}
	for {
		var set unix.FdSet
		set.Set(fd)
		set.Set(wake)
		_, err := unix.Select(max(fd, wake)+1, &set, nil, nil, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && set.IsSet(wake), err
	}
}
