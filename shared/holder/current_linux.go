package holder

import "golang.org/x/sys/unix"

// A sourceStamp is what a source was when it was mounted or copied.
type sourceStamp struct {
	path   string // without the leading slash
	dest   string // where it is mounted; empty for a copy
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

// current reports whether the tree is what its plan says, or could be made so
// again: each source the file that it was, each mount where it was put. Somebody
// on the host who renames a file over one that is a mount point here takes the
// mount away, and so does who removes it and creates it anew.
func (b *builder) current() bool {
	gone := map[string]bool{}
	for i := range b.sources {
		s := &b.sources[i]
		var st unix.Stat_t
		if unix.Fstatat(b.host, s.path, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT) == nil && stampOf(&st, s.copied) == s.stamp {
			continue
		}
		if s.dest == "" {
			return false
		}
		gone[s.dest] = true
	}
	for dest, id := range b.mounts {
		got, err := mountID(b.trees, dest)
		if id == absentMount && err == unix.ENOENT {
			continue
		}
		if err != nil || got != id {
			gone[dest] = true
		}
	}
	return len(gone) == 0 || b.mend(gone)
}
