package shared

import (
	"os"

	"golang.org/x/sys/unix"
)

// growPipe makes room for more than one chunk, which spares context switches,
// and returns how much the pipe holds. What a user may have in pipes is
// bounded, so that this may fail without harm.
func growPipe(f *os.File) int {
	capacity := 64 << 10
	conn, err := f.SyscallConn()
	if err != nil {
		return capacity
	}
	conn.Control(func(fd uintptr) {
		if n, err := unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 4*chunkSize); err == nil {
			capacity = n
		} else if n, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); err == nil {
			capacity = n
		}
	})
	return capacity
}
