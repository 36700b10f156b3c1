package host

import (
	"io/fs"
	"os"
	"syscall"
)

// selfPath is this very program, also after its file was replaced.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// engineSysProcAttr gives an engine a process group of its own, which keeps
// the terminal's signals from it, and the wish to end when its host does. It is
// SIGTERM, so that an engine can clean up; the channel's end says the same.
func engineSysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

func ownedPrivately(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid() && info.Mode().Perm()&0o077 == 0
}
