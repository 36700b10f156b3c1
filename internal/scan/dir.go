//go:build unix

package scan

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// readDir returns the entries of a directory, in the memory of list if that is enough, and its identity
// before it read them. It does not follow a symlink.
func readDir(path string, list []hostpath.Entry) (entries []hostpath.Entry, id identity, err error) {
	fd, err := hostpath.Openat(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, id, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := hostpath.Retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return nil, id, err
	}
	entries, err = hostpath.Entries(list, fd, maxEntries)
	return entries, identityOf(&st), err
}

// identify returns the identity of the file at path now. A missing one has none that a directory has.
func identify(path string) identity {
	st, _ := hostpath.Lstat(path)
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
