package sandboxinit

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

func openBinary(b Binary) (*os.File, error) {
	if b.Self {
		// The program that runs, even if its file has been replaced since.
		return openPath("/proc/self/exe", b.Path, 0)
	}
	return openPath(b.Path, b.Path, unix.O_NOFOLLOW)
}

// openPath opens without read permission: an executable may be 0711.
func openPath(path, name string, flags int) (*os.File, error) {
	for {
		fd, err := syscall.Open(path, unix.O_PATH|unix.O_CLOEXEC|flags, 0)
		if err == nil {
			return os.NewFile(uintptr(fd), name), nil
		}
		if err != syscall.EINTR {
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// ownFDs is where a process finds its own descriptors by path.
const ownFDs = "/proc/self/fd/"

// Sealed is an unnamed file in memory with that content, which nobody can change any more, at its
// start.
func Sealed(name, content string) (*os.File, error) {
	f, err := proc.NewMemory(name, int64(len(content)))
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteAt([]byte(content), 0); err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_WRITE)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
