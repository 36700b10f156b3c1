//go:build unix

package sessiondir

import (
	"context"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// measureTree returns the space of dir's contents on its file system, in bytes, a file with several
// names once.
//
// Unknown commands made the tree, and some may be changing it: it follows no symlink and enters no
// other file system, and the depth costs memory, not descriptors. It counts what it can read of
// files that go meanwhile, or that the caller may not read.
func measureTree(ctx context.Context, dir string) (size int64, err error) {
	fd, err := hostpath.Openat(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	m := measure{seen: map[inode]bool{}}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return 0, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	m.dev = uint64(st.Dev)
	m.add(&st)
	err = m.walk(ctx, fd, inode{m.dev, st.Ino})
	return m.total, err
}

type inode struct{ dev, ino uint64 }

type measure struct {
	dev   uint64
	total int64
	seen  map[inode]bool // package managers link one file into many places
}

func (m *measure) add(st *unix.Stat_t) { m.total += int64(st.Blocks) * 512 }

// walk walks the tree at the directory fd, which it closes. It has one directory open at a time and
// comes back by "..", where it checks that this is the previous directory: a command could have
// moved it meanwhile.
func (m *measure) walk(ctx context.Context, fd int, id inode) error {
	defer func() { unix.Close(fd) }()
	type level struct {
		id   inode
		dirs []string // still to be entered
	}
	stack := []level{{id, m.read(ctx, fd)}}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		top := &stack[len(stack)-1]
		name, next := "..", inode{}
		if n := len(top.dirs); n > 0 {
			name, top.dirs = top.dirs[n-1], top.dirs[:n-1]
		} else {
			if stack = stack[:len(stack)-1]; len(stack) == 0 {
				return nil
			}
			next = stack[len(stack)-1].id
		}
		sub, err := hostpath.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		var st unix.Stat_t
		if err == nil {
			err = unix.Fstat(sub, &st)
		}
		at := inode{uint64(st.Dev), st.Ino}
		if name == ".." {
			if err != nil || at != next {
				unix.Close(sub)
				return nil // moved: the directory above is unknown
			}
			unix.Close(fd)
			fd = sub
			continue
		}
		// There is no way back from a directory that cannot be searched.
		if err != nil || at.dev != m.dev || unix.Faccessat(sub, "..", 0, 0) != nil {
			unix.Close(sub)
			continue
		}
		unix.Close(fd)
		fd = sub
		stack = append(stack, level{at, m.read(ctx, fd)})
	}
}

// read counts the contents of the directory fd and returns its subdirectories.
func (m *measure) read(ctx context.Context, fd int) (dirs []string) {
	own, err := hostpath.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	dir := os.NewFile(uintptr(own), ".")
	defer dir.Close()
	for ctx.Err() == nil {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			var st unix.Stat_t
			if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue
			}
			isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
			if !isDir && st.Nlink > 1 {
				id := inode{uint64(st.Dev), st.Ino}
				if m.seen[id] {
					continue
				}
				m.seen[id] = true
			}
			m.add(&st)
			if isDir {
				dirs = append(dirs, name)
			}
		}
		if err != nil { // io.EOF at its end
			return dirs
		}
	}
	return dirs
}
