package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
)

// fmtCommand lays out configuration files.
type fmtCommand struct{ *app }

func (*fmtCommand) Synopsis() string   { return "Lay out configuration files in the usual style" }
func (*fmtCommand) takesCommand() bool { return false }

func (*fmtCommand) Help() string {
	return `Usage: sbxhost fmt [-check] [-write=BOOL] [FILE...]

Lay out files in the usual style of HCL, changing white space alone, and list
those that changed. Without FILE it is the configuration in force; - is standard
input, which is written to standard output.

Flags:
  -check            change nothing; list the files that are not laid out so
  -write=false      change nothing; write the result to standard output

Exit status: 0; 1 with -check when a file is not laid out so; 125 for a file that
is not HCL, or cannot be read or written.

Examples:
  sbxhost fmt
  sbxhost fmt -check ci/*.hcl
  sbxhost fmt - < config.hcl`
}

const statusUnformatted = 1

// Run implements subcommand.
func (c *fmtCommand) Run(args []string) int {
	fs := newFlags("fmt")
	check := fs.Bool("check", false, "")
	write := fs.Bool("write", true, "")
	if status, ok := c.parse(fs, c, args); !ok {
		return status
	}
	files := fs.Args()
	if len(files) == 0 {
		path, err := c.inForce()
		if err != nil {
			return c.fail(err)
		}
		files = []string{path}
	}
	status := 0
	for _, name := range files {
		changed, err := c.format(name, *check, *write)
		switch {
		case errors.Is(err, errReported):
			status = statusFailed
		case err != nil:
			status = c.fail(err)
		case changed && *check && status == 0:
			status = statusUnformatted
		}
	}
	return status
}

// inForce is the file that exec would use.
func (c *fmtCommand) inForce() (string, error) {
	dir, err := c.cwd()
	if err != nil {
		return "", err
	}
	path, _, err := config.Find(config.LookupOptions{Dir: dir, Getenv: c.getenv})
	if err == nil && path == "" {
		err = &hinted{errors.New("there is no configuration file here"), "name one, or write one with sbxhost init"}
	}
	return path, err
}

// format lays out one file and reports whether that changes it.
func (c *fmtCommand) format(name string, check, write bool) (bool, error) {
	src, path, err := c.source(name)
	if err != nil {
		return false, err
	}
	out, diags := config.Format(name, src)
	if diags.HasErrors() {
		c.diagnose(onlyErrors(diags))
		return false, errReported
	}
	changed := !bytes.Equal(src, out)
	switch {
	case check:
	case path == "" || !write:
		if _, err := c.stdout.Write(out); err != nil {
			return false, fmt.Errorf("standard output: %w", err)
		}
		return changed, nil
	case changed:
		w, err := c.openWriting(name, host.Options{})
		if err != nil {
			return false, err
		}
		defer w.close()
		if err := w.replace(src, out); err != nil {
			return false, err
		}
		if cwd, err := c.cwd(); err == nil {
			c.keepTrust(absolute(cwd, name), src, out)
		}
	}
	if changed {
		fmt.Fprintln(c.stdout, name)
	}
	return changed, nil
}

// source reads a file; its path, with symlinks resolved, is empty for standard
// input.
func (c *fmtCommand) source(name string) (src []byte, path string, err error) {
	if name == "-" {
		src, err = io.ReadAll(io.LimitReader(c.stdin, config.MaxSize+1))
		return src, "", err
	}
	cwd, err := c.cwd()
	if err != nil {
		return nil, "", err
	}
	path, err = filepath.EvalSymlinks(absolute(cwd, name))
	if err != nil {
		return nil, "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, "", err
	}
	if !info.Mode().IsRegular() {
		return nil, "", fmt.Errorf("%s is not a regular file", name)
	}
	if info.Size() > config.MaxSize {
		return nil, "", fmt.Errorf("%s is longer than the %d bytes of a configuration", name, config.MaxSize)
	}
	src, err = os.ReadFile(path)
	return src, path, err
}

// absolute resolves a path a person gave.
func absolute(cwd, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(cwd, path)
}
