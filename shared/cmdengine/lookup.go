package cmdengine

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// LookPath finds a command as a shell in dir with that environment would, in
// the file system that this process sees: a name with a slash is relative to dir;
// any other is looked up in the absolute elements of env's PATH. Relative
// elements do not count, because the directory would then choose what runs.
// The errors are ErrNotFound and ErrNotExecutable.
//
// It is for launchers that leave the view of files as it is.
func LookPath(name, dir string, env []string) (string, error) {
	file, err := lookup(name, dir, env)
	if err != nil {
		return "", execError(err, whereDirect)
	}
	return file, nil
}

func lookup(name, dir string, env []string) (string, *sandboxinit.ExecError) {
	if strings.Contains(name, "/") {
		file := name
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		if errno := executable(file); errno != 0 {
			return "", &sandboxinit.ExecError{Op: sandboxinit.OpExec, Path: name, Errno: errno}
		}
		return file, nil
	}
	var unusable *sandboxinit.ExecError
	if name != "" {
		for _, element := range strings.Split(searchPath(env), ":") {
			if !filepath.IsAbs(element) {
				continue
			}
			file := filepath.Join(element, name)
			switch errno := executable(file); errno {
			case 0:
				return file, nil
			case syscall.EACCES:
				if unusable == nil {
					unusable = &sandboxinit.ExecError{Op: sandboxinit.OpExec, Path: file, Errno: errno}
				}
			}
		}
	}
	if unusable != nil {
		return "", unusable
	}
	return "", &sandboxinit.ExecError{Op: sandboxinit.OpLookup, Path: name, Errno: syscall.ENOENT}
}

// executable gives the errno with which execve would refuse file, as far as
// that can be known without trying.
func executable(file string) syscall.Errno {
	info, err := os.Stat(file)
	if err != nil {
		if pe, ok := err.(*os.PathError); ok {
			if errno, ok := pe.Err.(syscall.Errno); ok {
				return errno
			}
		}
		return syscall.ENOENT
	}
	if info.IsDir() {
		return syscall.EISDIR
	}
	if !info.Mode().IsRegular() || unix.Access(file, unix.X_OK) != nil {
		return syscall.EACCES
	}
	return 0
}

// searchPath is the first PATH of env, as getenv(3) has it.
func searchPath(env []string) string {
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			return value
		}
	}
	return ""
}
