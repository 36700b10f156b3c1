package shared

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Command is one command to run in a sandbox, resolved like the Spec: nothing
// is inherited and nothing has a default.
type Command struct {
	// Args is the command line. Args[0] is looked up in the PATH of Env,
	// inside the sandbox, unless it contains a slash. With Script, Args are
	// the script's positional parameters instead.
	Args []string

	// Script is shell text, run as `bash -c` does, or as `sh -c` where there
	// is no bash inside. It may be far longer than one argument of a process
	// can be. Either Args or Script must be set.
	Script string

	// Env is the exact environment, "name=value", names unique.
	Env []string

	// Dir is the absolute working directory inside the sandbox. Where the Spec is
	// Unconfined it is one of the host, with symlinks resolved: that was approved,
	// and an engine follows none that has come to be on the way to it since.
	Dir string

	// TTY says that stdio is a terminal that is to become the command's
	// controlling terminal: the slave of a pair the host owns, given as all
	// three files.
	TTY bool

	// Trace has the engine tell, by one event [EventTraced] at the end, which files,
	// programs and addresses the command failed to reach. It changes nothing of what
	// the command can do.
	Trace bool

	// Timeout ends the command after that long; zero means never. The command
	// is sent SIGTERM first and killed with all it started after Grace; a
	// Grace of zero or less kills at once.
	Timeout time.Duration
	Grace   time.Duration
}

// Validate checks the form of c, never the file system; its errors are
// ErrInvalidSpec and name the field.
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
			// Not the value: it may be a secret.
			return invalid(fmt.Sprintf("env[%d]", i), "is not of the form name=value")
		} else if strings.IndexByte(e, 0) >= 0 {
			return invalid("env "+k, "contains a NUL byte")
		}
	}
	if err := checkPath("dir", c.Dir); err != nil {
		return err
	}
	return nil
}

// Stdio is the command's standard input, output and error. Engines always get
// files, so that a command writes to its caller's own pipe, file or terminal;
// a nil file is the null device. A directory is refused: it would hand over
// the host's tree.
type Stdio struct {
	// The files are the caller's, who may close each as soon as Start has
	// returned. Stdout and Stderr may be one file.
	Stdin, Stdout, Stderr *os.File
}

// Validate refuses what must not travel into a sandbox; its errors are
// ErrInvalidSpec and name the file.
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
			return invalid(f.name, "is a directory, which would hand the host's tree to the command; use a file, a pipe or a terminal")
		}
	}
	return nil
}
