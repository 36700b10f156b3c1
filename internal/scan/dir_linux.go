package scan

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// readDir reads a directory. It does not follow a symlink.
func readDir(path string, now time.Time) (l listing, err error) {
	fd, err := hostpath.Openat(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return l, err
	}
	defer unix.Close(fd)
	if l.id = identifyAt(fd, ""); l.id == (identity{}) {
		// Something forbids statx. identify then returns a new identity each time.
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return l, err
		}
		l.id.dev, l.id.ino = uint64(st.Dev), st.Ino
	}
	l.timesReliable = timesReliable(l.id, now)
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for {
		var n int
		err := ignoringEINTR(func() (err error) {
			n, err = unix.Getdents(fd, *buf)
			return err
		})
		if err != nil || n <= 0 {
			return l, err
		}
		l.entries = parse(l.entries, fd, (*buf)[:n])
	}
}

// parse reads struct linux_dirent64: inode, offset, length, type, name.
func parse(entries []dirent, fd int, b []byte) []dirent {
	const header = 19
	entries = slices.Grow(entries, len(b)/32)
	for text := string(b); len(b) > header; {
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size <= header || size > len(b) {
			return entries
		}
		inode, t := binary.NativeEndian.Uint64(b), b[18]
		name, _, _ := strings.Cut(text[header:size], "\x00")
		b, text = b[size:], text[size:]
		if name == "." || name == ".." {
			continue
		}
		if t == unix.DT_UNKNOWN {
			var st unix.Stat_t
			if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue // removed
			}
			t = byte(st.Mode & unix.S_IFMT >> 12)
		}
		e := dirent{name: name, kind: other, inode: inode}
		switch t {
		case unix.DT_REG:
			e.kind = regular
		case unix.DT_DIR:
			e.kind = directory
		case unix.DT_LNK:
			e.kind = symlink
		case unix.DT_SOCK:
			e.kind = socket
		}
		entries = append(entries, e)
	}
	return entries
}

// identify returns the identity of the file at path now, or zero.
func identify(path string) identity { return identifyAt(unix.AT_FDCWD, path) }

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
