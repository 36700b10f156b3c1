package cmdengine

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/hostpath"
)

func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// holdDir opens a directory of the host without following a symlink, and returns a path that keeps
// leading to this directory: otherwise a process that can write above it could put a symlink there
// before a child enters it.
func holdDir(dir string) (held *os.File, path string, errno syscall.Errno) {
	fd, err := hostpath.OpenNoSymlinks(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		errors.As(err, &errno)
		return nil, "", errno
	}
	held = os.NewFile(uintptr(fd), dir)
	path = "/proc/self/fd/" + strconv.Itoa(fd) // also in the child, until it executes
	if _, err := os.Stat(path); err != nil {   // there is no /proc
		return held, dir, 0
	}
	return held, path, 0
}

// givePipes lets another user reopen its own stdio: /dev/stderr is a path, and a pipe belongs to
// its maker. It gives away only nameless pipes; a named file or a terminal belongs to the caller.
func givePipes(files []*os.File, credential *syscall.Credential) {
	if credential == nil || int(credential.Uid) == os.Geteuid() {
		return
	}
	for _, f := range files {
		frame.Control(f, func(fd int) error {
			var fs unix.Statfs_t
			if unix.Fstatfs(fd, &fs) == nil && fs.Type == unix.PIPEFS_MAGIC {
				unix.Fchown(fd, int(credential.Uid), -1)
			}
			return nil
		})
	}
}
