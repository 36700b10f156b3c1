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

// maxInlineScript leaves room below MAX_ARG_STRLEN, the 128 KiB that one argument
// may have.
const maxInlineScript = 96 << 10

// A Program is what is executed for a command.
type Program struct {
	Path string   // of the file
	Argv []string // its arguments, the first of which is the name that it is called by
	// Script is what the shell must find at the descriptor that [Resolve] was told. Empty is
	// nothing.
	Script string
}

// Resolve finds the file to execute for a command, in the view of files that this
// process has, and its arguments. A name with a slash is relative to dir; where that is
// empty it is left as it is, and exec tells what is wrong with it. scriptFD has one
// digit: dash takes the 10 of `exec 10<&-` for a command.
func Resolve(args []string, script string, env []string, dir string, scriptFD int) (Program, *ExecError) {
	path := SearchPath(env)
	if script == "" {
		file, refused := lookup(args[0], dir, path)
		return Program{Path: file, Argv: args}, refused
	}
	// No login shell: the profile of many a system begins with a PATH of its own.
	name := "bash"
	file, refused := lookup(name, dir, path+":/bin:/usr/bin")
	if refused != nil {
		name = "sh"
		if file, refused = lookup(name, dir, path+":/bin:/usr/bin"); refused != nil {
			return Program{}, refused
		}
	}
	text, long := script, ""
	if len(text) > maxInlineScript {
		fd := strconv.Itoa(scriptFD)
		// The shell reads it through a descriptor of its own, as `.` opens the file anew; what
		// the script runs must not inherit this one. Closed on the script's own first line,
		// so that line numbers in messages are right.
		text, long = ". "+ownFDs+fd, "exec "+fd+"<&-; "+script
	}
	return Program{file, append([]string{name, "-c", text, name}, args...), long}, nil
}

// SearchPath is the PATH of env: the first one, which is what getenv(3) gives.
func SearchPath(env []string) string {
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			return value
		}
	}
	return ""
}

// lookup finds the file that a command's name means, as execvp(3) does, except
// that only absolute elements of the path count: a relative one would let
// the directory that the command happens to be in choose what runs.
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

// Executable gives the errno with which execve would refuse file, as far as that can be
// known without trying.
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
