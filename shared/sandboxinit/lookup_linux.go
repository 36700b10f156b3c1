package sandboxinit

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// searchPath is the PATH of env: the first one, which is what getenv(3) gives.
func searchPath(env []string) string {
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
func lookup(name, path string) (string, *ExecError) {
	if strings.IndexByte(name, '/') >= 0 {
		return name, nil // exec itself tells what is wrong with it
	}
	if name == "" {
		return "", &ExecError{OpLookup, name, syscall.ENOENT}
	}
	var unusable *ExecError
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" || dir[0] != '/' {
			continue
		}
		file := strings.TrimRight(dir, "/") + "/" + name
		var st syscall.Stat_t
		if err := syscall.Stat(file, &st); err != nil {
			if err == syscall.EACCES && unusable == nil {
				unusable = &ExecError{OpExec, file, syscall.EACCES}
			}
			continue
		}
		if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
			continue // a directory named like a command is not one
		}
		if unix.Access(file, unix.X_OK) != nil {
			if unusable == nil {
				unusable = &ExecError{OpExec, file, syscall.EACCES}
			}
			continue
		}
		return file, nil
	}
	if unusable != nil {
		return "", unusable
	}
	return "", &ExecError{OpLookup, name, syscall.ENOENT}
}
