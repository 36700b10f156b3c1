package sandboxinit

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
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
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if err == syscall.EINVAL { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err = f.WriteAt([]byte(content), 0); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
