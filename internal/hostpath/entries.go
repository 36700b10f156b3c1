//go:build unix

package hostpath

import (
	"encoding/binary"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An Entry is one of a directory.
type Entry struct {
	Name  string // shares memory with a longer text
	Kind  byte   // such as unix.DT_REG
	Inode uint64
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// Entries appends to list the entries of an open directory that are left to read. It stops soon after it
// has more than limit. It makes no os.File: a command's look at a repository reads dozens of directories.
func Entries(list []Entry, fd, limit int) ([]Entry, error) {
	var one unix.Dirent
	const header, length, inodeAt, typeAt = int(unsafe.Offsetof(one.Name)), unsafe.Offsetof(one.Reclen), unsafe.Offsetof(one.Ino), unsafe.Offsetof(one.Type)
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for len(list) <= limit {
		var n int
		err := Retry(func() (err error) {
			n, err = unix.ReadDirent(fd, *buf)
			return err
		})
		if err != nil || n <= 0 {
			return list, err
		}
		list = slices.Grow(list, n/32)
		for b, text := (*buf)[:n], string((*buf)[:n]); len(b) > header; {
			size := int(binary.NativeEndian.Uint16(b[length:]))
			if size <= header || size > len(b) {
				break
			}
			inode, t := binary.NativeEndian.Uint64(b[inodeAt:]), b[typeAt]
			name, _, _ := strings.Cut(text[header:size], "\x00")
			b, text = b[size:], text[size:]
			if name == "." || name == ".." || inode == 0 && runtime.GOOS != "linux" { // a removed one has 0 elsewhere
				continue
			}
			if t == unix.DT_UNKNOWN {
				var st unix.Stat_t
				if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == unix.ENOENT {
					continue // removed
				} else if err != nil {
					return list, err
				}
				t = byte(st.Mode & unix.S_IFMT >> 12)
			}
			list = append(list, Entry{name, t, inode})
		}
	}
	return list, nil
}
