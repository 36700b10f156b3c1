package host

import (
	"io/fs"
	"os"
	"syscall"
)

func selfPath() (string, error) { return os.Executable() }

// engineSysProcAttr gives an engine a process group of its own, which keeps
// the terminal's signals from it. There is no Pdeathsig here: the channel's
// end alone tells it that its host is gone.
func engineSysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

func ownedPrivately(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid() && info.Mode().Perm()&0o077 == 0
}
