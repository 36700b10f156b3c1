package nsengine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/mountplan"
	"github.com/sbxhost/sbxhost/shared"
)

// SessionDir makes a directory of a session, one for each user, and checks who could have written
// to it. It follows no link: the user may be able to write to the directory above, and this process
// may be root's.
func SessionDir(spec *shared.Spec, name string) (string, error) {
	uid, gid := os.Geteuid(), os.Getegid()
	if u := spec.User; u != nil && uid == 0 {
		uid, gid = int(u.UID), int(u.GID)
	}
	session, err := mountplan.OpenSource(spec.Session.Dir)
	if err != nil {
		return "", err
	}
	defer session.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(session.Fd()), &st); err != nil {
		return "", err
	}
	if st.Mode&0o022 != 0 || int(st.Uid) != os.Geteuid() && st.Uid != 0 && int(st.Uid) != uid {
		return "", fmt.Errorf("the session directory %q is another user's, or others can write to it", spec.Session.Dir)
	}
	name += "-" + strconv.Itoa(uid)
	if err := unix.Mkdirat(int(session.Fd()), name, 0o700); err != nil && err != unix.EEXIST {
		return "", os.NewSyscallError("mkdir", err)
	}
	dir := filepath.Join(spec.Session.Dir, name)
	fd, err := unix.Openat(int(session.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}
	if int(st.Uid) == os.Geteuid() { // just made, with the caller's umask
		if err := errors.Join(unix.Fchmod(fd, 0o700), unix.Fchown(fd, uid, gid)); err != nil {
			return "", err
		}
	} else if int(st.Uid) != uid {
		return "", fmt.Errorf("%q is another user's", dir)
	}
	return dir, nil
}
