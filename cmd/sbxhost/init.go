package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sbxhost/sbxhost/config"
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

// Run implements cli.Command.
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
	if err := writeNew(path, config.Sample(), *force); err != nil {
		return c.fail(err)
	}
	c.trustWritten(path, config.Sample())
	return c.print(printable(path) + "\n")
}

// writeNew writes a file that must not exist, unless forced.
func writeNew(path string, text []byte, force bool) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !force:
		return &hinted{fmt.Errorf("%s exists", path), "-force replaces it"}
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file; remove it first", path)
	default:
		return replaceFile(path, nil, text)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		os.Remove(path)
	}
	return err
}
