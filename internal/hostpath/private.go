package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// ErrNotPrivate says that others own a directory, or can write to it, and can therefore exchange
// the files in it.
var ErrNotPrivate = errors.New("not a directory of this user alone")

// CheckPrivate returns ErrNotPrivate unless dir is a directory of the process's user to which
// nobody else can write. It refuses a symlink.
func CheckPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	switch uid, _, known := ownerOf(info); {
	case !info.IsDir():
		return fmt.Errorf("%q is not a directory: %w", dir, ErrNotPrivate)
	case !known:
		return fmt.Errorf("%q has an owner that this system does not report: %w", dir, ErrNotPrivate)
	case int(uid) != os.Geteuid():
		return fmt.Errorf("%q belongs to uid %d and this process is uid %d: %w", dir, uid, os.Geteuid(), ErrNotPrivate)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others can write to %q (mode %#o); chmod it to 0700: %w", dir, info.Mode().Perm(), ErrNotPrivate)
	}
	return nil
}

// MakePrivate makes a directory that CheckPrivate accepts, and the missing directories above it,
// all with that mode, except a home directory: HOME can be wrong. It makes nothing in another user's
// directory. Otherwise root in a user's home, as with a plain sudo, would leave directories there that
// the user cannot write. For root, nothing above it may be another user's, who could replace it, also
// by a symlink: root would then write into a directory of that user's choice.
func MakePrivate(dir string, mode fs.FileMode) error {
	resolved, err := Resolve("/", dir, nil)
	if err != nil {
		return err
	}
	var missing []string
	for at := range paths.Up(dir) {
		info, err := os.Stat(at)
		if errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, at)
			continue
		} else if err != nil {
			return err
		}
		if uid, _, known := ownerOf(info); (len(missing) > 0 || os.Geteuid() == 0) && (!known || !trustedOwner(uid)) {
			return fmt.Errorf("%q would lie in a directory of uid %d and this process is uid %d: %w", dir, uid, os.Geteuid(), ErrNotPrivate)
		}
		if os.Geteuid() != 0 {
			break
		}
	}
	if i := slices.IndexFunc(missing, func(dir string) bool { return slices.Contains(inHome, filepath.Base(dir)) }); i >= 0 && i < len(missing)-1 {
		return fmt.Errorf("the home directory %q does not exist", missing[i+1])
	}
	if os.Geteuid() == 0 && resolved != dir { // what a symlink of root's leads to can lie in another user's directory
		if err := MakePrivate(resolved, mode); err != nil {
			return err
		}
	}
	for _, at := range slices.Backward(missing) {
		err := os.Mkdir(at, mode)
		if err == nil && mode != 0o700 {
			err = os.Chmod(at, mode) // despite the umask
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return CheckPrivate(dir)
}

var inHome = []string{".local", ".cache", "Library"}
