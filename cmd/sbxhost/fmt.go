package main

import (
	"bytes"
	"errors"
	"flag"
	"io"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/replace"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/source"
)

const statusUnformatted = 1

// formatAll formats configuration files.
func formatAll(a *cli.App, fs *flag.FlagSet) func() error {
	check := fs.Bool("check", false, "")
	write := fs.Bool("write", true, "")
	return func() error {
		files := fs.Args()
		if len(files) == 0 {
			path, _, err := config.Find(config.LookupOptions{Dir: a.Dir, Getenv: a.Getenv})
			if err == nil && path == "" {
				err = cli.Hint(errors.New("there is no configuration file here"), "name one, or write one with sbxhost init")
			}
			if err != nil {
				return err
			}
			files = []string{path}
		}
		status := 0
		for _, name := range files {
			changed, err := format(a, name, *check, *write)
			switch {
			case err != nil:
				status = a.Fail(err)
			case changed && *check && status == 0:
				status = statusUnformatted
			}
		}
		return cli.Exit(status)
	}
}

// format formats one file and reports whether that changes it.
func format(a *cli.App, name string, check, write bool) (bool, error) {
	src, err := readSource(a, name)
	if err != nil {
		return false, err
	}
	out, diags := source.Format(name, src)
	if diags.HasErrors() {
		a.Diagnose(cli.OnlyErrors(diags))
		return false, cli.Exit(cli.StatusFailed)
	}
	changed := !bytes.Equal(src, out)
	switch {
	case check:
	case name == "-" || !write:
		return changed, a.Print(string(out))
	case changed:
		if err := replace.Named(a.Dir, name, a.WritableDirs(host.Options{}, name), src, out); err != nil {
			return false, err
		}
		setup.KeepTrust(a, a.Absolute(name), src, out)
	}
	if changed {
		err = a.Print(name + "\n")
	}
	return changed, err
}

// readSource reads a file, or standard input for "-".
func readSource(a *cli.App, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(a.Stdin, source.MaxSize+1))
	}
	return source.Read(a.Absolute(name))
}
