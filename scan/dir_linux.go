package scan

import (
	"bytes"
	"encoding/binary"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/hostpath"
)

var buffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// readDir reads a directory, which is no symlink, and what it was before.
func readDir(path string) ([]dirent, *unix.Stat_t, error) {
	fd, err := hostpath.Openat(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, nil, err
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	var entries []dirent
	for {
		var n int
		err := ignoringEINTR(func() (err error) {
			n, err = unix.Getdents(fd, *buf)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		if n <= 0 {
			return entries, &st, nil
		}
		entries = parse(entries, fd, (*buf)[:n])
	}
}

// parse reads struct linux_dirent64: inode, offset, length, type, name.
func parse(entries []dirent, fd int, b []byte) []dirent {
	const header = 19
	for len(b) > header {
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size <= header || size > len(b) {
			return entries
		}
		record, inode, t := b[header:size], binary.NativeEndian.Uint64(b), b[18]
		b = b[size:]
		if i := bytes.IndexByte(record, 0); i >= 0 {
			record = record[:i]
		}
		name := string(record)
		if name == "." || name == ".." {
			continue
		}
		if t == unix.DT_UNKNOWN {
			var st unix.Stat_t
			if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue // gone
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

// identify gives the identity of what is at path now, or the zero one. It
// allocates nothing: it is called for every directory.
func identify(path []byte) identity {
	at := unix.AT_FDCWD
	path = append(path, 0) // what follows path in its array is nobody's
	var st unix.Statx_t
	for {
		_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(at), uintptr(unsafe.Pointer(&path[0])),
			unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_INO|unix.STATX_MTIME|unix.STATX_CTIME, uintptr(unsafe.Pointer(&st)), 0)
		switch errno {
		case unix.EINTR:
			continue
		case 0:
			return identity{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino, nanoseconds(st.Mtime), nanoseconds(st.Ctime)}
		}
		return identity{} // the directory is read, which says what is wrong
	}
}

// localClock reports whether the times in a directory are this kernel's own, at
// their full resolution where they have it.
func localClock(path string) bool {
	var st unix.Statfs_t
	if ignoringEINTR(func() error { return unix.Statfs(path, &st) }) != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
		return true
	}
	return false
}

func nanoseconds(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }
