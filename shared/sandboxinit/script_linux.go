package sandboxinit

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// scriptFD is where the shell finds a long script. One digit: dash takes the 10
// of `exec 10<&-` for a command.
const scriptFD = 3

// scriptPrefix closes scriptFD for what the script runs. The shell reads the
// script through an fd of its own, as `.` opens the file anew. It shares a line
// with the script's first, so that line numbers in messages are right.
const scriptPrefix = "exec 3<&-; "

// sealedScript returns an fd of a file in memory that holds the script and that
// nothing can change any more.
func sealedScript(text string) (int, error) {
	fd, err := unix.MemfdCreate("script", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if err == syscall.EINVAL { // before Linux 6.3
		fd, err = unix.MemfdCreate("script", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return -1, err
	}
	for _, part := range []string{scriptPrefix, text} {
		for b := []byte(part); len(b) > 0 && err == nil; {
			var n int
			n, err = syscall.Write(fd, b)
			if err == syscall.EINTR {
				err = nil
				continue
			}
			b = b[max(n, 0):]
		}
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS,
			unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		syscall.Close(fd)
		return -1, err
	}
	return fd, nil
}
