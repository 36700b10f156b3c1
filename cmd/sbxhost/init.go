package main

import (
	"errors"
	"flag"
	"os"
	"path/filepath"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/replace"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
)

// writeSample writes a first configuration.
func writeSample(a *cli.App, fs *flag.FlagSet) func() error {
	force := fs.Bool("force", false, "")
	return func() error {
		path := filepath.Join(a.Absolute(fs.Arg(0)), config.FileName)
		if err := replace.New(path, a.WritableDirs(host.Options{}, path), config.Sample(), *force); errors.Is(err, os.ErrNotExist) {
			return cli.Hint(err, "make the directory first: mkdir -p "+cli.ShellQuote(filepath.Dir(path)))
		} else if err != nil {
			return err
		}
		setup.KeepTrust(a, path, nil, config.Sample())
		return a.Print(cli.Printable(path) + "\n")
	}
}
