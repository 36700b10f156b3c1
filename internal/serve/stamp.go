package serve

import (
	"io/fs"
	"strconv"
	"syscall"
)

func inode(info fs.FileInfo) string {
	st := info.Sys().(*syscall.Stat_t)
	return strconv.FormatUint(uint64(st.Dev), 16) + ":" + strconv.FormatUint(st.Ino, 10)
}
