package scan

import "golang.org/x/sys/unix"

// identifyAt is identify relative to fd, and for fd itself if path is empty.
func identifyAt(fd int, path string) (id identity) {
	const (
		how  = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_EMPTY_PATH
		what = unix.STATX_INO | unix.STATX_MTIME | unix.STATX_CTIME | unix.STATX_BTIME | unix.STATX_MNT_ID | unix.STATX_MNT_ID_UNIQUE
	)
	var st unix.Statx_t
	if ignoringEINTR(func() error { return unix.Statx(fd, path, how, what, &st) }) != nil {
		return id // reading the directory reports the error
	}
	id = identity{dev: unix.Mkdev(st.Dev_major, st.Dev_minor), ino: st.Ino, mtime: nanoseconds(st.Mtime), ctime: nanoseconds(st.Ctime)}
	if st.Mask&unix.STATX_BTIME != 0 {
		id.btime = nanoseconds(st.Btime)
	}
	if st.Mask&(unix.STATX_MNT_ID|unix.STATX_MNT_ID_UNIQUE) != 0 {
		id.mount = st.Mnt_id
	}
	return id
}

func nanoseconds(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }

// clockLead is the lead of the wall clock over the time since boot. It changes when somebody sets
// the clock, but not when the clock is slowed down.
func clockLead() int64 {
	var wall, boot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME, &wall) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return wall.Nano() - boot.Nano()
}
