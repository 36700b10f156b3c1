package sandboxinit

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/proc"
)

// openBinary opens without read permission: an executable may be 0711.
func openBinary(b Binary) (*os.File, error) {
	path, flags := b.Path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW
	if b.Self {
		// The program that runs, even if its file has been replaced since.
		path, flags = "/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC
	}
	fd, err := hostpath.Openat(unix.AT_FDCWD, path, flags, 0)
	if err != nil {
		return nil, hostpath.OpenError(path, err)
	}
	return os.NewFile(uintptr(fd), b.Path), nil
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
