package sessiondir

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// lockHolders gives the processes that have locked the file path, whose inode
// is ino: those that the kernel's list names and that have it open.
func lockHolders(path string, ino uint64) []int {
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(parseLocks(string(text), ino), func(pid int) bool {
		dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
		fds, err := os.ReadDir(dir)
		if err != nil {
			return true
		}
		return !slices.ContainsFunc(fds, func(fd os.DirEntry) bool {
			target, err := os.Readlink(filepath.Join(dir, fd.Name()))
			return err == nil && target == path
		})
	})
}
