//go:build unix

package hostpath

import (
	"io/fs"
	"syscall"
)

func ownerOf(info fs.FileInfo) (uid, gid uint32, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return st.Uid, st.Gid, true
}

// links returns how many names a file has.
func links(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

const noFollow = syscall.O_NOFOLLOW
