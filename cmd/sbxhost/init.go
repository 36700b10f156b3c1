package main

import (
	"flag"
	"path/filepath"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
)

// init writes a configuration to begin with.
func (a *app) init(fs *flag.FlagSet) func() error {
	force := fs.Bool("force", false, "")
	return func() error {
		path := filepath.Join(a.absolute(fs.Arg(0)), config.FileName)
		if err := writeNew(path, a.commandDirs(host.Options{}, path), config.Sample(), *force); err != nil {
			return err
		}
		a.trustWritten(path, config.Sample())
		return a.print(printable(path) + "\n")
	}
}
