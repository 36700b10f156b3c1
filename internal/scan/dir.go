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

// readDir returns the entries of a directory, and its identity before it read them. It does not follow a
// symlink.
func readDir(path string) (entries []dirent, id identity, err error) {
	fd, err := hostpath.Openat(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, id, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := hostpath.Retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return nil, id, err
	}
	id = identityOf(&st)
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for {
		var n int
		err := hostpath.Retry(func() (err error) {
			n, err = unix.ReadDirent(fd, *buf)
			return err
		})
		if err != nil || n <= 0 {
			return entries, id, err
		}
		entries = parse(entries, fd, (*buf)[:n])
	}
}

// parse adds the entries of the directory fd in b, which getdents(2) has filled.
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
		if name == "." || name == ".." || inode == 0 && runtime.GOOS != "linux" { // a removed one has 0 elsewhere
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

// lstat returns the zero value with an error.
func lstat(path string) (st unix.Stat_t, err error) {
	err = hostpath.Retry(func() error { return unix.Lstat(path, &st) })
	return st, err
}

// identify returns the identity of the file at path now. A missing one has none that a directory has.
func identify(path string) identity {
	st, _ := lstat(path)
	return identityOf(&st)
}

func identityOf(st *unix.Stat_t) identity {
	return identity{uint64(st.Dev), st.Ino, st.Mtim.Nano(), st.Ctim.Nano()}
}

// began is the time from which clockLead counts; any time would do.
var began = time.Now()

// clockLead returns the lead of the wall clock over the time that the machine has run since began. It
// changes when somebody sets the clock, and when the machine sleeps, but not when a service slows the
// clock down.
func clockLead() time.Duration {
	now := time.Now()
	return now.Round(0).Sub(began.Round(0)) - now.Sub(began)
}
