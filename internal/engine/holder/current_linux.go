package holder

import "golang.org/x/sys/unix"

// A sourceStamp is the state of a source when it was mounted or copied.
type sourceStamp struct {
	dest   string // without the leading slash
	path   string // of the host
	copied bool
	stamp
}

type stamp struct {
	dev, ino     uint64
	mode         uint32
	size         int64
	mtime, ctime unix.Timespec
}

func stampOf(st *unix.Stat_t, copied bool) stamp {
	s := stamp{dev: uint64(st.Dev), ino: st.Ino, mode: st.Mode & unix.S_IFMT}
	if copied {
		s.size, s.mtime, s.ctime = st.Size, st.Mtim, st.Ctim
	}
	return s
}

// current reports whether the tree matches its plan: each source is the same file, and each mount
// is where it was. If somebody on the host removes a mount point here, or renames a file over it,
// the kernel removes the mount.
func (b *builder) current() bool {
	for i := range b.sources {
		s := &b.sources[i]
		var st unix.Stat_t
		if unix.Fstatat(b.host, inHost(s.path), &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT) != nil || stampOf(&st, s.copied) != s.stamp {
			return false
		}
	}
	for dest := range b.mounts {
		if !b.inPlace(dest) {
			return false
		}
	}
	return true
}

// inPlace reports whether the mount at dest is the tree's.
func (b *builder) inPlace(dest string) bool {
	got, err := mountID(b.trees, dest)
	if b.mounts[dest] == absentMount && err == unix.ENOENT {
		return true
	}
	return err == nil && got == b.mounts[dest]
}
