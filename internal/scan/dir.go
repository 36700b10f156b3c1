//go:build unix

package scan

import (
	"encoding/binary"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// readDir reads a directory, and its identity before that. It does not follow a symlink.
func readDir(path string) (entries []dirent, id identity, err error) {
	fd, err := hostpath.Openat(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, id, err
	}
	defer unix.Close(fd)
	if id, err = identityBy(func(st *unix.Stat_t) error { return unix.Fstat(fd, st) }); err != nil {
		return nil, id, err
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for {
		var n int
		err := ignoringEINTR(func() (err error) {
			n, err = unix.ReadDirent(fd, *buf)
			return err
		})
		if err != nil || n <= 0 {
			return entries, id, err
		}
		entries = parse(entries, fd, (*buf)[:n])
	}
}

// parse reads what the system writes about the entries of a directory.
func parse(entries []dirent, fd int, b []byte) []dirent {
	var one unix.Dirent
	const header, length, inodeAt, typeAt = int(unsafe.Offsetof(one.Name)), unsafe.Offsetof(one.Reclen), unsafe.Offsetof(one.Ino), unsafe.Offsetof(one.Type)
	entries = slices.Grow(entries, len(b)/32)
	for text := string(b); len(b) > header; {
		size := int(binary.NativeEndian.Uint16(b[length:]))
		if size <= header || size > len(b) {
			return entries
		}
		inode, t := binary.NativeEndian.Uint64(b[inodeAt:]), b[typeAt]
		name, _, _ := strings.Cut(text[header:size], "\x00")
		b, text = b[size:], text[size:]
		if name == "." || name == ".." || inode == 0 && runtime.GOOS != "linux" { // elsewhere, that is a removed one
			continue
		}
		if t == unix.DT_UNKNOWN {
			var st unix.Stat_t
			if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue // removed
			}
			t = byte(st.Mode & unix.S_IFMT >> 12)
		}
		entries = append(entries, dirent{name, t, inode})
	}
	return entries
}

// identify returns the identity of the file at path now, or zero.
func identify(path string) identity {
	id, _ := identityBy(func(st *unix.Stat_t) error { return unix.Lstat(path, st) })
	return id
}

func identityBy(stat func(*unix.Stat_t) error) (id identity, err error) {
	var st unix.Stat_t
	if err := ignoringEINTR(func() error { return stat(&st) }); err != nil {
		return id, err
	}
	return identity{uint64(st.Dev), st.Ino, st.Mtim.Nano(), st.Ctim.Nano()}, nil
}

// began is any time.
var began = time.Now()

// clockLead is the lead of the wall clock over the time that the machine has run since began. It
// changes when somebody sets the clock, and when the machine sleeps, but not when the clock is
// slowed down.
func clockLead() time.Duration {
	now := time.Now()
	return now.Round(0).Sub(began.Round(0)) - now.Sub(began)
}
