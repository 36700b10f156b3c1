//go:build unix

package sandboxinit

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxInlineScript is below MAX_ARG_STRLEN, the 128 KiB of one argument.
const maxInlineScript = 96 << 10

// A Program is what is executed for a command.
type Program struct {
	Path string   // of the file
	Argv []string // its arguments; the first is the name that it is called by
	// Script is what the shell must find at the descriptor of [Resolve]; may be empty.
	Script string
}

// Resolve finds the file to execute for a command, in this process's view of files, and its
// arguments. A name with a slash is relative to dir; if dir is empty, the name stays as it is, and
// exec reports errors. scriptFD has one digit: dash takes the 10 of `exec 10<&-` for a command.
func Resolve(args []string, script string, env []string, dir string, scriptFD int) (Program, *ExecError) {
	path := SearchPath(env)
	if script == "" {
		file, refused := lookup(args[0], dir, path)
		return Program{Path: file, Argv: args}, refused
	}
	// No login shell: the profile of many a system sets its own PATH.
	var name, file string
	var refused *ExecError
	for _, name = range [...]string{"bash", "sh"} {
		if file, refused = lookup(name, dir, path+":/bin:/usr/bin"); refused == nil {
			break
		}
	}
	if refused != nil {
		return Program{}, refused
	}
	text, long := script, ""
	if len(text) > maxInlineScript {
		fd := strconv.Itoa(scriptFD)
		// The shell reads it through its own descriptor, because `.` reopens the file; the script's
		// commands must not inherit this one. The script's own first line closes it, so that line
		// numbers in messages are right.
		text, long = ". "+ownFDs+fd, "exec "+fd+"<&-; "+script
	}
	return Program{file, append([]string{name, "-c", text, name}, args...), long}, nil
}

// SearchPath is the PATH of env: the first one, as for getenv(3).
func SearchPath(env []string) string {
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			return value
		}
	}
	return ""
}

// lookup finds the file of a command's name, as execvp(3) does, except that only absolute elements
// of the path count: with a relative one the current directory would choose what runs.
func lookup(name, dir, path string) (string, *ExecError) {
	if strings.Contains(name, "/") {
		if dir == "" {
			return name, nil
		}
		file := name
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		if errno := Executable(file); errno != 0 {
			return "", &ExecError{OpExec, name, errno}
		}
		return file, nil
	}
	if name == "" {
		return "", &ExecError{OpLookup, name, syscall.ENOENT}
	}
	var unusable *ExecError
	for element := range strings.SplitSeq(path, ":") {
		if !filepath.IsAbs(element) {
			continue
		}
		file := filepath.Join(element, name)
		switch errno := Executable(file); {
		case errno == 0:
			return file, nil
		case errno == syscall.EACCES && unusable == nil:
			unusable = &ExecError{OpExec, file, errno}
		}
	}
	if unusable != nil {
		return "", unusable
	}
	return "", &ExecError{OpLookup, name, syscall.ENOENT}
}

// Executable returns the errno with which execve would refuse file, as far as that is known without
// a try.
func Executable(file string) syscall.Errno {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return errnoOf(err)
	case info.IsDir():
		return syscall.EISDIR
	case !info.Mode().IsRegular() || unix.Access(file, unix.X_OK) != nil:
		return syscall.EACCES
	}
	return 0
}

func errnoOf(err error) syscall.Errno {
	if errno, ok := errors.AsType[syscall.Errno](err); ok && errno != 0 {
		return errno
	}
	return syscall.EINVAL
}
