package mountplan

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// Look returns the facts of this machine.
func Look() *Facts {
	f := gather(hostTree{}, uint32(os.Geteuid()), Memory())
	f.tree = bareTree{}
	return f
}

// Memory is this machine's, in bytes; 0 if unknown.
func Memory() uint64 {
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) != nil {
		return 0
	}
	return uint64(si.Totalram) * uint64(max(si.Unit, 1))
}

// OpenSource opens a source to bind. No component may be a symlink: the path was resolved before,
// so a symlink was planted since.
func OpenSource(name string) (*os.File, error) {
	fd, err := hostpath.OpenNoSymlinks(name, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, hostpath.OpenError(name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// bareTree is the real file system, name by name: if a directory of a path has become a symlink
// meanwhile, that is an error.
type bareTree struct{ hostTree }

func (bareTree) lstat(p string) (entry, error) {
	info, err := Lstat(p)
	return entryOf(p, info, err)
}

// Lstat is os.Lstat of a path without symlinks in any component.
func Lstat(p string) (fs.FileInfo, error) {
	f, err := OpenSource(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}
