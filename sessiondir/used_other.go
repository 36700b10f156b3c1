//go:build unix && !linux

package sessiondir

import "golang.org/x/sys/unix"

// used gives the space that is taken on the file system of dir; ok is false
// where it does not tell.
func used(dir string) (bytes int64, ok bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Blocks == 0 {
		return 0, false
	}
	return int64(st.Blocks-st.Bfree) * int64(st.Bsize), true
}
