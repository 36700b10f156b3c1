package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"path/filepath"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
)

const statusUnformatted = 1

// fmt lays out configuration files.
func (a *app) fmt(fs *flag.FlagSet) func() error {
	check := fs.Bool("check", false, "")
	write := fs.Bool("write", true, "")
	return func() error {
		files := fs.Args()
		if len(files) == 0 {
			path, _, err := config.Find(config.LookupOptions{Dir: a.dir, Getenv: a.getenv})
			if err == nil && path == "" {
				err = &hinted{errors.New("there is no configuration file here"), "name one, or write one with sbxhost init"}
			}
			if err != nil {
				return err
			}
			files = []string{path}
		}
		status := 0
		for _, name := range files {
			changed, err := a.format(name, *check, *write)
			switch {
			case err != nil:
				status = a.fail(err)
			case changed && *check && status == 0:
				status = statusUnformatted
			}
		}
		return exit(status)
	}
}

// format lays out one file and reports whether that changes it.
func (a *app) format(name string, check, write bool) (bool, error) {
	src, path, err := a.source(name)
	if err != nil {
		return false, err
	}
	out, diags := config.Format(name, src)
	if diags.HasErrors() {
		a.diagnose(onlyErrors(diags))
		return false, exit(statusFailed)
	}
	changed := !bytes.Equal(src, out)
	switch {
	case check:
	case path == "" || !write:
		return changed, a.print(string(out))
	case changed:
		w, err := openWriting(a.dir, name, a.commandDirs(host.Options{}, name))
		if err != nil {
			return false, err
		}
		defer w.close()
		if err := w.replace(src, out); err != nil {
			return false, err
		}
		a.keepTrust(a.absolute(name), src, out)
	}
	if changed {
		err = a.print(name + "\n")
	}
	return changed, err
}

// source reads a file; its path, with symlinks resolved, is empty for standard
// input.
func (a *app) source(name string) (src []byte, path string, err error) {
	if name == "-" {
		src, err = io.ReadAll(io.LimitReader(a.stdin, config.MaxSize+1))
		return src, "", err
	}
	if path, err = filepath.EvalSymlinks(a.absolute(name)); err == nil {
		src, err = config.Read(path)
	}
	return src, path, err
}

// absolute resolves a path a person gave.
func (a *app) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(a.dir, path)
}
