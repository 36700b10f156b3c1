package containerinit

import (
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// runOwn is the whole life of a process with OwnArgv.
func runOwn(owner string, dirs []string) int {
	o, ok := parseOwner(owner)
	if !ok {
		return proc.Complain("reading "+strconv.Quote(owner), syscall.EINVAL)
	}
	for _, dir := range dirs {
		if err := o.take(dir); err != nil {
			return proc.Complain("giving "+strconv.Quote(dir)+" to "+owner, err)
		}
	}
	return 0
}

func (o Owner) take(dir string) error {
	// Not through a symlink of the image.
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if o.Unknown {
		return unix.Fchmod(fd, 0o777)
	}
	return unix.Fchown(fd, int(o.UID), int(o.GID))
}

func parseOwner(s string) (Owner, bool) {
	if s == anybody {
		return Owner{Unknown: true}, true
	}
	uid, gid, ok := strings.Cut(s, ":")
	u, err := strconv.ParseUint(uid, 10, 32)
	g, err2 := strconv.ParseUint(gid, 10, 32)
	o := Owner{UID: uint32(u), GID: uint32(g)}
	// The highest number would mean no change.
	return o, ok && err == nil && err2 == nil && o.UID+1 != 0 && o.GID+1 != 0 && o.String() == s
}
