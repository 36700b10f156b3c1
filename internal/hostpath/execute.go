package hostpath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// ErrNoProgram says that the host can trust no program of that name.
var ErrNoProgram = errors.New("PATH has none that only you and root can replace")

// systemDirs are the system's program directories on various systems.
var systemDirs = [...]string{"/usr/bin", "/bin", "/usr/sbin", "/sbin", "/run/current-system/sw/bin"}

// Command prepares to execute the program in the root directory. Its environment has a PATH of the
// system's directories, and the caller's additions. So if the program searches for a
// helper by its name, it does not find a command's: in a directory of the user, a link may lead to
// a file that commands write. Nor can a variable make it load a command's library. It has a process
// group of its own: ^C is for this process, which knows what it means. Nothing else in this project
// executes a program of the host.
func (p *Program) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Args[0], cmd.Dir, cmd.Env, cmd.SysProcAttr = p.name, "/", []string{"PATH=" + systemPath(p.written)}, ownGroup()
	return cmd
}

// systemPath leaves out directories that commands can write. If none remains, it names a missing
// one: an empty PATH means the current directory.
func systemPath(written func(string) string) string {
	var dirs []string
	for _, dir := range systemDirs {
		if resolved, info, err := vouch(dir, written); err == nil && info != nil && !slices.Contains(dirs, resolved) {
			dirs = append(dirs, resolved)
		}
	}
	if dirs == nil {
		return os.DevNull
	}
	return strings.Join(dirs, ":")
}

// Programs is the only search for programs that people install anywhere.
type Programs struct {
	Path    string                           // the caller's PATH; if it has no absolute path, as after env -i, the system's is used
	Written func(path string) (where string) // as for CheckProgram
}

// Find searches for a program by its name in PATH, or at its absolute path. It skips files that
// CheckProgram refuses. The found program is the last of tried. Without one, the error is
// ErrNoProgram, and says why the first file was refused.
func (p *Programs) Find(name string) (found *Program, tried []string, err error) {
	// A command may have put a program into a current directory of the caller.
	dirs := slices.DeleteFunc(filepath.SplitList(p.Path), func(dir string) bool { return !filepath.IsAbs(dir) })
	if len(dirs) == 0 {
		dirs = systemDirs[:]
	}
	if filepath.IsAbs(name) {
		dirs = []string{"/"}
	} else if filepath.Base(name) != name {
		return nil, nil, fmt.Errorf("%s is neither a name nor an absolute path", Quote(name))
	}
	why := ""
	for _, dir := range dirs {
		at := filepath.Join(dir, name)
		tried = append(tried, at)
		if _, err := os.Lstat(at); Gone(err) {
			continue // Written can take as long as all else here, and most directories have no such file
		}
		found, err := CheckProgram(at, p.Written)
		if err == nil {
			return found, tried, nil
		}
		if why == "" && !errors.Is(err, os.ErrNotExist) {
			why = ": " + err.Error()
		}
	}
	return nil, tried, fmt.Errorf("%s: %w%s", name, ErrNoProgram, why)
}

// Installed returns a program by its absolute path, which this project or its user has written
// down. It refuses one that somebody other than root and the user can write or replace. It checks
// the program's own directory but none above: package managers keep some that a group can write.
func Installed(path string) (*Program, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(resolved)
	if err != nil {
		return nil, err
	}
	if err := CheckExecutable(resolved, info); err != nil {
		return nil, err
	}
	return &Program{path: resolved, name: path}, nil
}

// Beside returns the program of that name from this program's installation: next to this program,
// or next to the target of a symlink to it.
func Beside(name string) (*Program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	found, err := Installed(filepath.Join(filepath.Dir(self), name))
	if led, linked := filepath.EvalSymlinks(self); errors.Is(err, os.ErrNotExist) && linked == nil && led != self {
		return Installed(filepath.Join(filepath.Dir(led), name))
	}
	return found, err
}

// Self returns this very program. On Linux it does so even if the file was replaced.
func Self() (*Program, error) {
	self, err := os.Executable()
	if runtime.GOOS == "linux" {
		if err != nil {
			self = os.Args[0] // no /proc is mounted; the execution reports that
		}
		return &Program{path: "/proc/self/exe", name: self}, nil
	}
	return &Program{path: self, name: self}, err
}
