package hostpath

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// A Program may be executed outside of every sandbox: CheckProgram, [Programs.Find], [Installed],
// [Beside] or [Self] has checked it.
type Program struct {
	path    string
	name    string                           // the name that the caller used; some programs act by their name
	written func(path string) (where string) // as for CheckProgram
}

// Path is absolute and, except for Self, without symlinks.
func (p *Program) Path() string { return p.path }

// CheckProgram returns the program that a path leads to, if CheckFile accepts it.
func CheckProgram(path string, written func(path string) (where string)) (*Program, error) {
	resolved, info, err := CheckFile(path, written)
	if err == nil {
		err = CheckExecutable(resolved, info)
	}
	if err == nil {
		err = checkInterpreter(resolved, written, 0)
	}
	if err != nil {
		return nil, err
	}
	return &Program{resolved, path, written}, nil
}

// CheckFile returns the target of a path, and its info. It refuses a file that somebody other than
// root and the user can write or replace: the file, a symlink on the way to it, or a directory
// above any of these. So nobody else can exchange the file after the check. CheckFile also refuses
// a file if written says that commands can write where a path of it is, and names that place.
// written is nil if the caller knows no command.
func CheckFile(path string, written func(path string) (where string)) (resolved string, info fs.FileInfo, err error) {
	resolved, info, err = vouch(path, written)
	if err == nil && info == nil {
		err = &fs.PathError{Op: "open", Path: resolved, Err: fs.ErrNotExist}
	}
	if err == nil {
		err = cmp.Or(checkFile(resolved, info), checkAbove(resolved))
	}
	return resolved, info, err
}

// checkInterpreter refuses a script whose first line names a file where commands can write, such as
// one of a virtual environment in a workspace; also if that is a script with such an interpreter.
func checkInterpreter(path string, written func(path string) (where string), depth int) error {
	words, err := Interpreter(path)
	if err != nil && !errors.Is(err, fs.ErrPermission) { // an unreadable file is not a script
		return err
	}
	const kernels = 5 // the kernel executes no deeper ones
	for i, word := range words {
		at := strings.IndexByte(word, '/')
		if at < 0 {
			continue
		}
		resolved, info, err := vouch(word[at:], written)
		if err == nil && i == 0 && info != nil && depth < kernels {
			err = checkInterpreter(resolved, written, depth+1)
		}
		if err != nil {
			return fmt.Errorf("%s is a script: %w", Quote(path), err)
		}
	}
	return nil
}

// Interpreter returns the words after "#!" in the first line of a script; none for another file. It
// follows no symlink, which a command can have made, to a device that acts when it is opened.
func Interpreter(path string) (words []string, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY|noFollow, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, err // a fifo could block
	}
	var buf [256]byte // as much as the kernel reads
	n, err := f.Read(buf[:])
	if err != nil && err != io.EOF {
		return nil, err
	}
	line, _, _ := strings.Cut(string(buf[:n]), "\n")
	if line, ok := strings.CutPrefix(line, "#!"); ok {
		words = strings.Fields(line)
	}
	return words, nil
}

// vouch returns the target of a path, and its info. It checks the symlinks on the way, and that
// commands cannot write to any part.
func vouch(path string, written func(path string) (where string)) (resolved string, info fs.FileInfo, err error) {
	var symlinks []string
	resolved, info, err = Follow("/", path, func(link string) { symlinks = append(symlinks, link) }, nil)
	if err != nil {
		return "", nil, err
	}
	if written != nil { // else no command is known
		for _, p := range slices.Compact(append([]string{path, resolved}, symlinks...)) {
			if where := written(p); where != "" {
				return "", nil, fmt.Errorf("%s lies in %s, where a command could have put it; install it elsewhere", Quote(p), where)
			}
		}
		if info != nil && linked(resolved, info) {
			return "", nil, fmt.Errorf("%s has %d names (hard links; find / -xdev -samefile FILE lists them), by which a command could have written it; replace it by a copy: cp FILE FILE.new && mv FILE.new FILE", Quote(resolved), links(info))
		}
	}
	for _, link := range symlinks {
		info, err := os.Lstat(link)
		if err != nil {
			return "", nil, err
		}
		if err := CheckOwner(link, info); err != nil {
			return "", nil, err
		}
		if err := checkAbove(link); err != nil {
			return "", nil, err
		}
	}
	return resolved, info, nil
}

// packaged are the program directories of package managers: some managers give one program several
// names, or join equal files. /usr/local is its user's.
var packaged = []string{"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/usr/libexec", "/bin", "/sbin", "/nix/store", "/gnu/store"}

// linked reports whether a program of the user has several names. A user's own package manager
// makes hard links from one store into environments, and these may be in a workspace.
func linked(path string, info fs.FileInfo) bool {
	uid, _, known := ownerOf(info)
	return info.Mode().IsRegular() && known && int(uid) == os.Geteuid() && links(info) > 1 && !paths.InsideAny(packaged, path)
}

// Trusted returns the path without symlinks of a directory in which nobody but root and the user can
// replace a file, nor the directory itself: by a symlink, another user would lead this process astray.
func Trusted(dir string) (string, error) {
	resolved, _, err := vouch(dir, nil)
	if err == nil {
		err = checkAbove(resolved + "/.")
	}
	return resolved, err
}

// checkAbove checks every directory above a path without symlinks: whoever can rename one of them can
// replace the files in it.
func checkAbove(path string) error {
	for dir := range paths.Up(filepath.Dir(path)) {
		info, err := os.Lstat(dir) // a symlink is new
		if err == nil {
			err = checkDirectory(dir, info)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Gone reports whether an error says that nothing is at a path.
func Gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// Follow returns the target of a path from a directory without symlinks, "/" for absolute paths,
// and its info: nil if it or a directory above it does not exist. Follow calls via with each
// symlink on the way: the resolved path of its directory, and its name. leave is that of
// [paths.Follow].
func Follow(from, p string, via func(link string), leave func(dir string)) (string, fs.FileInfo, error) {
	var last fs.FileInfo
	end, there, err := paths.Follow(from, p, func(at string, _ bool) (paths.Step, error) {
		info, err := os.Lstat(at)
		switch {
		case Gone(err):
			return paths.Step{Missing: true}, nil
		case err != nil:
			return paths.Step{}, err
		case info.Mode()&fs.ModeSymlink == 0:
			last = info
			return paths.Step{}, nil
		}
		via(at)
		target, err := os.Readlink(at)
		return paths.Step{Target: target}, err
	}, leave)
	switch {
	case errors.Is(err, paths.ErrLinks):
		return "", nil, &fs.PathError{Op: "follow", Path: p, Err: syscall.ELOOP}
	case err != nil:
		return "", nil, err
	case !there:
		return end, nil, nil
	case last == nil || last.Name() != path.Base(end): // it ended in a ".."
		last, err = os.Lstat(end)
	}
	return end, last, err
}

// CheckExecutable refuses a program that somebody other than root and the user can write or
// replace: an init, an engine or a launcher runs with the user's rights outside of every sandbox,
// or with everything that is bound into one. path has no symlinks; info describes the file. A
// directory is not a program, and its error is the one of a missing file.
func CheckExecutable(path string, info fs.FileInfo) error {
	if info.IsDir() {
		// A stub that holds the path, so that no command puts a program there.
		return fmt.Errorf("%q is a directory and no program: %w", path, fs.ErrNotExist)
	}
	if !info.Mode().IsRegular() {
		return untrusted(path, "is not a regular file")
	}
	if err := checkFile(path, info); err != nil {
		return err
	}
	if info.Mode().Perm()&0o111 == 0 {
		return untrusted(path, "is not executable: chmod 0755 it")
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	return checkDirectory(filepath.Dir(path), dir)
}

// checkFile refuses a file that somebody other than root and the user can write. info describes the
// file.
func checkFile(path string, info fs.FileInfo) error {
	if err := checkOwner(path, info, "belongs to another user: chown it to root or to yourself"); err != nil {
		return err
	}
	if writableByOthers(path, info) {
		return untrusted(path, "is writable by its group or by others: chmod go-w it")
	}
	return nil
}

// checkDirectory refuses a directory in which somebody other than root and the user can replace a
// file, there or deeper.
func checkDirectory(path string, info fs.FileInfo) error {
	if err := checkOwner(path, info, "belongs to another user, who can replace what lies in it: chown it to root or to yourself, or install elsewhere"); err != nil {
		return err
	}
	if writableByOthers(path, info) && info.Mode()&fs.ModeSticky == 0 {
		return untrusted(path, "is writable by its group or by others, who can replace what lies in it: chmod go-w it")
	}
	return nil
}

// CheckOwner refuses a file that somebody other than root and the user made: a symlink, which its
// owner can lead elsewhere, or a socket. info describes the link itself.
func CheckOwner(path string, info fs.FileInfo) error {
	return checkOwner(path, info, "belongs to another user, who decides what it is")
}

// checkOwner refuses a file of another user. Without a known owner, it refuses the file too.
func checkOwner(path string, info fs.FileInfo, refusal string) error {
	uid, _, known := ownerOf(info)
	if !known {
		refusal = "has an owner that this system does not report, and is not trusted"
	} else if trustedOwner(uid) {
		return nil
	} else if uid == overflowUID && !allMapped() {
		refusal = "belongs to a user who has no number in this user namespace, as root has none in a sandbox: use a copy that is your own, and to run a sandbox in a sandbox say config { nested_userns = true } in the definition of the outer one"
	}
	return untrusted(path, refusal)
}

// untrusted is the error for a file that is not taken.
func untrusted(path, why string) error { return errors.New(strconv.Quote(path) + " " + why) }

// overflowUID is the kernel's number for users that a user namespace does not map.
const overflowUID = 65534

// allMapped reports whether every user has a number here.
func allMapped() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err != nil || strings.Join(strings.Fields(string(text)), " ") == "0 0 4294967295"
}

// writableByOthers accepts a group that is the owner's alone: where each user has a group of the
// same number, new files are group-writable. With an access control list, the group bits are the
// most that anybody on the list has.
func writableByOthers(path string, info fs.FileInfo) bool {
	perm := info.Mode().Perm()
	if perm&0o002 != 0 {
		return true
	}
	uid, gid, _ := ownerOf(info)
	return perm&0o020 != 0 && (gid != 0 && gid != uid || hasACL(path))
}

// trustedOwner accepts root, the user, and the owner of the root directory or of the system's
// programs: the overflow user if root is not mapped, as in a user namespace. In a sandbox, the root
// directory belongs to the user.
func trustedOwner(uid uint32) bool {
	return uid == 0 || int(uid) == os.Geteuid() || slices.ContainsFunc([]string{"/", "/usr"}, func(dir string) bool {
		info, err := os.Stat(dir)
		if err != nil {
			return false
		}
		owner, _, known := ownerOf(info)
		return known && owner == uid
	})
}
