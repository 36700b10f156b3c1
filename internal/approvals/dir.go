//go:build unix

package approvals

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// MakeDir makes a store's directory, and what is missing above it, for its owner
// alone. What root makes in a directory of somebody else's - HOME can be that
// one's - belongs to that one: nobody could use ~/.local otherwise but root.
func MakeDir(dir string) error {
	if os.Geteuid() != 0 {
		return os.MkdirAll(dir, 0o700)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := MakeDir(filepath.Dir(dir)); err != nil {
		return err
	}
	above, err := os.OpenFile(filepath.Dir(dir), unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer above.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(above.Fd()), &st); err != nil {
		return &fs.PathError{Op: "stat", Path: above.Name(), Err: err}
	}
	name := filepath.Base(dir)
	switch err := unix.Mkdirat(int(above.Fd()), name, 0o700); {
	case err == unix.EEXIST || err == nil && st.Uid == 0:
		return nil
	case err != nil:
		return &fs.PathError{Op: "mkdir", Path: dir, Err: err}
	}
	fd, err := unix.Openat(int(above.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	made := os.NewFile(uintptr(fd), dir)
	defer made.Close()
	// Whose the directory above is can have put another one of root's there.
	if _, err := made.Readdirnames(1); err != io.EOF {
		return fmt.Errorf("%s was replaced while it was made", dir)
	}
	return made.Chown(int(st.Uid), int(st.Gid))
}
