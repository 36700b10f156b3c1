package sandboxinit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// ErrNoBinary is wrapped by the error of [Locate] when no executable can serve
// as the init.
var ErrNoBinary = errors.New("no executable can serve as the init")

// Binary is an executable that serves as the init.
type Binary struct {
	// Path is where it lies.
	Path string
	// Self is true when it is the running program.
	Self bool
	// Refused says why a sbxhost-init beside the program was passed over for
	// the program itself. Nil if there was none.
	Refused error
}

// Locate returns the executable that serves as the init: a safe sbxhost-init in
// the directory of the running program, else the running program itself if it
// called [Hook]. Never one from PATH: the workspace could supply its own.
func Locate() (Binary, error) {
	program, err := os.Executable()
	if err != nil {
		return Binary{}, errors.Join(ErrNoBinary, err)
	}
	return locate(program, hooked.Load())
}

// LocateBeside is Locate for a program at the given path, which is never
// itself taken for the init.
func LocateBeside(program string) (Binary, error) {
	return locate(program, false)
}

func locate(program string, isHooked bool) (Binary, error) {
	resolved, err := filepath.EvalSymlinks(program)
	if err != nil {
		// Replaced by an update while running: what runs can still be opened.
		if isHooked {
			return Binary{Path: program, Self: true}, nil
		}
		return Binary{}, errors.Join(ErrNoBinary, err)
	}
	beside := filepath.Join(filepath.Dir(resolved), initArg)
	if resolved == beside && isHooked {
		return Binary{Path: resolved, Self: true}, nil
	}
	info, err := os.Lstat(beside)
	if err == nil {
		err = CheckExecutable(beside, info)
		if err == nil {
			return Binary{Path: beside}, nil
		}
	}
	var refused error
	if !errors.Is(err, fs.ErrNotExist) {
		refused = err
	}
	if isHooked {
		return Binary{Path: resolved, Self: true, Refused: refused}, nil
	}
	if refused != nil {
		return Binary{}, errors.Join(ErrNoBinary, refused)
	}
	return Binary{}, &noBinaryError{beside}
}

type noBinaryError struct{ beside string }

func (e *noBinaryError) Unwrap() error { return ErrNoBinary }
func (e *noBinaryError) Error() string {
	return ErrNoBinary.Error() + ": install sbxhost-init as " + strconv.Quote(e.beside) +
		", or call host.ServeBuiltin, shared.Serve or sandboxinit.Hook first in the program's main"
}

// CheckExecutable refuses a program that somebody other than root and the user
// could have written or replaced: an init, an engine or a launcher runs with
// the user's rights outside of every sandbox, or with all that is bound into
// one. path has no symlinks; info is that of the file. A directory is no program,
// and the error that of one that does not exist.
func CheckExecutable(path string, info fs.FileInfo) error {
	refuse := func(why string) error { return errors.New(strconv.Quote(path) + " " + why) }
	if info.IsDir() {
		// What holds a place so that no command puts a program there.
		return fmt.Errorf("%q is a directory and no program: %w", path, fs.ErrNotExist)
	}
	if !info.Mode().IsRegular() {
		return refuse("is not a regular file")
	}
	if info.Mode().Perm()&0o111 == 0 {
		return refuse("is not executable: chmod 0755 it")
	}
	if err := CheckFile(path, info); err != nil {
		return err
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	if writableByOthers(filepath.Dir(path), dir) && dir.Mode()&fs.ModeSticky == 0 {
		return refuse("lies in a directory in which others can replace it: chmod go-w that")
	}
	return nil
}

// CheckFile refuses a file that somebody other than root and the user could have
// written. info is that of the file.
func CheckFile(path string, info fs.FileInfo) error {
	if writableByOthers(path, info) {
		return errors.New(strconv.Quote(path) + " is writable by its group or by others: chmod go-w it")
	}
	if !ownerTrusted(info) {
		return errors.New(strconv.Quote(path) + " belongs to another user: chown it to root or to yourself")
	}
	return nil
}

// CheckDirectory refuses a directory in which somebody other than root and the
// user could replace what lies in it or below.
func CheckDirectory(path string, info fs.FileInfo) error {
	switch {
	case !ownerTrusted(info):
		return errors.New(strconv.Quote(path) + " belongs to another user, who can replace what lies in it: chown it to root or to yourself, or install elsewhere")
	case writableByOthers(path, info) && info.Mode()&fs.ModeSticky == 0:
		return errors.New(strconv.Quote(path) + " is writable by its group or by others, who can replace what lies in it: chmod go-w it")
	}
	return nil
}

// CheckOwner refuses what somebody other than root and the user has made: a
// symlink, which its owner can lead elsewhere, or a socket. info is that of the
// link itself.
func CheckOwner(path string, info fs.FileInfo) error {
	if !ownerTrusted(info) {
		return errors.New(strconv.Quote(path) + " belongs to another user, who decides what it is")
	}
	return nil
}

// writableByOthers allows for a group that is the owner's alone: where users
// have a group each, of their own number, what they build is group-writable. With
// an access control list those bits are the most that anybody on it is given.
func writableByOthers(path string, info fs.FileInfo) bool {
	perm := info.Mode().Perm()
	if perm&0o002 != 0 {
		return true
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return perm&0o020 != 0 && ok && (st.Gid != 0 && st.Gid != st.Uid || hasACL(path))
}

// ownerTrusted accepts root, the user, and who owns the root directory: the
// overflow user where root is not mapped, as in a user namespace.
func ownerTrusted(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Uid == 0 || int(st.Uid) == os.Geteuid() {
		return true
	}
	top, err := os.Stat("/")
	if err != nil {
		return false
	}
	root, ok := top.Sys().(*syscall.Stat_t)
	return ok && root.Uid == st.Uid
}

// Open returns an fd of the executable for the launcher to inherit. The file is
// checked again through that fd, so what was checked is what runs.
func (b Binary) Open() (*os.File, error) {
	f, err := openBinary(b)
	if err != nil {
		return nil, err
	}
	if b.Self {
		return f, nil
	}
	info, err := f.Stat()
	if err == nil {
		err = CheckExecutable(b.Path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
