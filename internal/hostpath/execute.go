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

// ErrNoProgram: no program of that name can be trusted.
var ErrNoProgram = errors.New("on PATH is none that nobody but you and root can replace")

// A Program may be executed outside of every sandbox: CheckProgram, [Programs.Find],
// [Installed], [Beside] or [Self] has checked it.
type Program struct {
	path    string
	name    string                           // as it was asked for, by which some programs know what they are
	written func(path string) (where string) // as for CheckProgram
}

// Path is absolute and, but for Self, without symlinks.
func (p *Program) Path() string { return p.path }

// systemDirs have the programs of the system, on one or another.
var systemDirs = [...]string{"/usr/bin", "/bin", "/usr/sbin", "/sbin", "/run/current-system/sw/bin"}

// Command prepares to execute the program in the root directory. Its environment is a PATH of
// the system's directories, and what the caller adds. So a pager or a helper that the program
// looks for by its name is no command's: in a directory of the user's own, a link may lead to
// what commands write. Nor does a variable have it load a command's library. Nothing else
// here executes a program of the host.
func (p *Program) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Args[0], cmd.Dir, cmd.Env = p.name, "/", []string{"PATH=" + systemPath(p.written)}
	return cmd
}

// systemPath leaves out what commands can write; if that is all, it names what does not exist:
// an empty PATH is the current directory.
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

// Programs is the one search for programs that people install where they like.
type Programs struct {
	Path    string                           // the caller's PATH; one without any absolute path, as of env -i, is the system's
	Written func(path string) (where string) // as for CheckProgram
}

// Find looks for a program by its name in PATH, or at its absolute path. It passes by what
// CheckProgram refuses. The program is the last of tried; without one the error is
// ErrNoProgram, and says why the first was refused.
func (p *Programs) Find(name string) (found *Program, tried []string, err error) {
	dirs := filepath.SplitList(p.Path)
	if !slices.ContainsFunc(dirs, filepath.IsAbs) {
		dirs = systemDirs[:]
	}
	if filepath.IsAbs(name) {
		dirs = []string{"/"}
	} else if filepath.Base(name) != name {
		return nil, nil, fmt.Errorf("%s is neither a name nor an absolute path", Quote(name))
	}
	why := ""
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			continue // in a current directory of the caller's is what a command has put there
		}
		tried = append(tried, filepath.Join(dir, name))
		found, err := CheckProgram(tried[len(tried)-1], p.Written)
		if err == nil {
			return found, tried, nil
		}
		if why == "" && !errors.Is(err, os.ErrNotExist) {
			why = ": " + err.Error()
		}
	}
	return nil, tried, fmt.Errorf("%s: %w%s", name, ErrNoProgram, why)
}

// CheckPath refuses a path, of anything or nothing, as CheckProgram does by where it lies and leads.
func (p *Programs) CheckPath(path string) error {
	_, _, err := vouch(filepath.Clean(path), p.Written)
	return err
}

// Installed gives a program by its absolute path, which this project or its user has written down. It
// refuses one that somebody other than root and the user could have written or replaced. The
// directories above its own are not looked at: package managers keep some that a group can write.
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

// Beside gives the program of that name which was installed with this one: beside it, or beside what
// a symlink to it leads to.
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

// Self gives this very program, on Linux also after its file was replaced.
func Self() (*Program, error) {
	self, err := os.Executable()
	if runtime.GOOS == "linux" {
		if err != nil {
			self = os.Args[0] // no /proc is mounted, which is told when it is executed
		}
		return &Program{path: "/proc/self/exe", name: self}, nil
	}
	return &Program{path: self, name: self}, err
}
