package containerinit

import (
	"cmp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// runOwn is the whole life of a process with OwnArgv.
func runOwn(owner string, dirs []string) int {
	give := func(fd int) error { return unix.Fchmod(fd, 0o777) }
	if owner != Anybody {
		uid, gid, err := parseOwner(owner)
		if err != nil {
			return proc.Complain("reading "+strconv.Quote(owner), err)
		}
		give = func(fd int) error { return unix.Fchown(fd, uid, gid) }
	}
	for _, dir := range dirs {
		// Not through a symlink of the image.
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			err = give(fd)
			unix.Close(fd)
		}
		if err != nil {
			return proc.Complain("giving "+strconv.Quote(dir)+" to "+owner, err)
		}
	}
	return 0
}

// parseOwner refuses a number that would mean no change.
func parseOwner(s string) (uid, gid int, err error) {
	user, group, _ := strings.Cut(s, ":")
	u, err := strconv.ParseUint(user, 10, 31)
	g, failed := strconv.ParseUint(group, 10, 31)
	return int(u), int(g), cmp.Or(err, failed)
}
