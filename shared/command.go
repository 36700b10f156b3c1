package shared

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Command is one command to run in a sandbox. Like the Spec it is resolved: it inherits nothing,
// and no field has a default.
type Command struct {
	// Args is the command line. The PATH of Env, inside the sandbox, finds Args[0], unless it
	// contains a slash. With Script, Args are the script's positional parameters.
	Args []string

	// Script is shell text for `bash -c`, or for `sh -c` if the sandbox has no bash. It may be far
	// longer than one argument of a process. Either Args or Script must be set.
	Script string

	// Env is the exact environment, "name=value", names unique.
	Env []string

	// Dir is the absolute working directory inside the sandbox. If the Spec is Unconfined, it is a
	// path of the host without symlinks. Somebody approved that path, so the engine follows no
	// symlink that has appeared in it since.
	Dir string

	// TTY says that stdio is a terminal, the slave of a pair that the host owns, for all three
	// files. It becomes the command's controlling terminal.
	TTY bool

	// Trace makes the engine send an event [EventTraced] at the end, with the files, programs and
	// addresses that the command failed to reach. It does not change what the command can do.
	Trace bool

	// Timeout ends the command after this time; zero means never. The engine sends SIGTERM, and
	// after Grace it kills the command and all that it started. A Grace of zero or less kills at
	// once.
	Timeout time.Duration
	Grace   time.Duration
}

// Validate checks the form of c, never the file system. Its errors are ErrInvalidSpec and name the
// field.
func (c *Command) Validate() error {
	if len(c.Args) == 0 && c.Script == "" {
		return invalid("command", "no argv and no script")
	}
	if c.Script == "" && c.Args[0] == "" {
		return &Error{Kind: ErrNotFound, Message: "the command's name is empty"}
	}
	for i, a := range c.Args {
		if strings.IndexByte(a, 0) >= 0 {
			return invalid(fmt.Sprintf("args[%d]", i), "contains a NUL byte")
		}
	}
	if strings.IndexByte(c.Script, 0) >= 0 {
		return invalid("script", "contains a NUL byte")
	}
	for i, e := range c.Env {
		if k, _, ok := strings.Cut(e, "="); !ok || k == "" {
			// Do not show the value: it may be a secret.
			return invalid(fmt.Sprintf("env[%d]", i), "is not of the form name=value")
		} else if strings.IndexByte(e, 0) >= 0 {
			return invalid("env "+k, "contains a NUL byte")
		}
	}
	return checkPath("dir", c.Dir)
}

// Stdio is the command's standard input, output and error. Engines always get files, so that a
// command writes to its caller's own pipe, file or terminal; a nil file is the null device.
// Validate refuses a directory, which would give the command the host's tree.
type Stdio struct {
	// The caller owns the files, and may close each one after Start. Stdout and Stderr may be the
	// same file.
	Stdin, Stdout, Stderr *os.File
}

// Validate refuses files that must not enter a sandbox. Its errors are ErrInvalidSpec and name the
// file.
func (s *Stdio) Validate() error {
	for _, f := range []struct {
		name string
		file *os.File
	}{{"stdin", s.Stdin}, {"stdout", s.Stdout}, {"stderr", s.Stderr}} {
		if f.file == nil {
			continue
		}
		info, err := f.file.Stat()
		if err != nil {
			return invalid(f.name, "%v", err)
		}
		if info.IsDir() {
			return invalid(f.name, "is a directory, which would give the host's tree to the command; use a file, a pipe or a terminal")
		}
	}
	return nil
}
