package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/hostpath"
)

// initCommand writes a configuration to begin with.
type initCommand struct{ *app }

func (*initCommand) Synopsis() string   { return "Write a commented config.hcl to begin with" }
func (*initCommand) takesCommand() bool { return false }

func (*initCommand) Help() string {
	return `Usage: sbxhost init [-force] [DIRECTORY]

Write a commented config.hcl to DIRECTORY, by default the current one, and print
its path. A file that is there already is left alone.

Flags:
  -force            replace what is there

Examples:
  sbxhost init
  sbxhost init ~/.config/sbxhost`
}

// Run implements subcommand.
func (c *initCommand) Run(args []string) int {
	flags := newFlags("init")
	force := flags.Bool("force", false, "")
	if status, ok := c.parse(flags, c, args); !ok {
		return status
	}
	if flags.NArg() > 1 {
		return c.usage(flags, fmt.Errorf("unexpected argument %q", flags.Arg(1)))
	}
	dir, err := c.cwd()
	if err != nil {
		return c.fail(err)
	}
	if flags.NArg() == 1 {
		dir = absolute(dir, flags.Arg(0))
	}
	path := filepath.Join(dir, config.FileName)
	if err := writeNew(path, c.commandDirs(host.Options{}, path), config.Sample(), *force); err != nil {
		return c.fail(err)
	}
	c.trustWritten(path, config.Sample())
	return c.print(printable(path) + "\n")
}

// writeNew writes a file that must not exist, unless forced, and not by way of a
// symlink that a command can have made.
func writeNew(path string, writable func() []string, text []byte, force bool) error {
	dir, err := hostpath.OpenDir("/", filepath.Dir(path), writable)
	if err != nil {
		return err
	}
	defer dir.Close()
	name := filepath.Base(path)
	info, err := dir.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !force:
		return &hinted{fmt.Errorf("%s exists", quote(path)), "-force replaces it"}
	case info.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%s is not a regular file; remove it first", quote(path))
	default:
		return replaceFile(dir, name, nil, text)
	}
	f, err := dir.Create(name, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		dir.Remove(name)
	}
	return err
}
