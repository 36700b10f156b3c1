package engines

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/replace"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/inforce"
	"github.com/sbxhost/sbxhost/internal/launch"
)

// Pin writes checksums of engines into the configuration.
func Pin(a *cli.App, fs *flag.FlagSet) func() error {
	explicit := cli.ConfigFlag(fs)
	dry := fs.Bool("n", false, "")
	return func() error {
		var w *replace.File
		if !*dry {
			var err error
			if w, err = lockConfig(a, *explicit); err != nil {
				return err
			}
			if w != nil {
				defer w.Close()
			}
		}
		return setup.WithHost(a, explicit, true, func(_ context.Context, s *setup.Setup, h *host.Host) error {
			return pin(a, s, h, w, fs.Args(), *dry)
		})()
	}
}

// pin writes the checksums of the requested engines into the locked file of w.
func pin(a *cli.App, s *setup.Setup, h *host.Host, w *replace.File, asked []string, dry bool) error {
	if s.File.Path() == "" {
		return cli.Hint(errors.New("there is no configuration file to write to"), "name one with -config, or write one with sbxhost init")
	}
	files, err := engineFiles(h, s, asked)
	if err != nil {
		return err
	}
	before := s.File.Text()
	text, told, err := pinAll(a, s.File, files)
	if err != nil {
		return err
	}
	if !bytes.Equal(text, before) && !dry {
		if err := w.Replace(before, text); err != nil {
			return err
		}
		setup.KeepTrust(a, s.File.Path(), before, text)
	}
	return a.Print(told)
}

// pinAll returns the text of a configuration with the checksums of engines, and a list of these.
func pinAll(a *cli.App, file *config.File, files []launch.File) (text []byte, told string, err error) {
	text = file.Text()
	for _, f := range files {
		sum, err := launch.Checksum(f.Path)
		if err != nil {
			return nil, "", fmt.Errorf("engine %q: %w", f.Name, err)
		}
		if sum == f.Pinned {
			told += fmt.Sprintf("%s: %s is pinned already\n", f.Name, sum)
			continue
		}
		if text, err = file.Pin(config.Pin{Engine: f.Name, Source: f.Path, Platform: launch.Platform(), SHA256: sum}); err != nil {
			return nil, "", err
		}
		told += fmt.Sprintf("%s: %s of %s\n", f.Name, sum, cli.Quote(f.Path))
		var diags config.Diagnostics
		if file, diags = config.Parse(file.Path(), text, setup.Caller(a).EvalInput()); diags.HasErrors() {
			return nil, "", setup.Invalid(a, &inforce.InvalidError{File: file, Diagnostics: diags})
		}
	}
	return text, told, nil
}

// lockConfig locks the configuration in force before the caller reads it. Without a configuration
// it returns nil.
func lockConfig(a *cli.App, explicit string) (*replace.File, error) {
	path, _, err := setup.Caller(a).Find(explicit)
	if err != nil || path == "" {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, nil // the reader reports more about it
	}
	return replace.Open(a.Dir, path, setup.CommandDirs(a, host.Options{}, path))
}

// engineFiles finds the executables of the requested engines, or of all that have an engine block.
func engineFiles(h *host.Host, s *setup.Setup, asked []string) ([]launch.File, error) {
	names := cli.SortedKeys(s.Options.Engines)
	if len(asked) > 0 {
		var err error
		if names, err = engineNames(h, asked); err != nil {
			return nil, err
		}
	} else if len(names) == 0 {
		return nil, cli.Hint(fmt.Errorf("%s declares no engine", s.File.Path()), "declare it in an engine block")
	}
	files := make([]launch.File, 0, len(names))
	for _, name := range names {
		f, err := h.EngineFile(name)
		if err != nil {
			return nil, err
		}
		if f.Path == "" {
			return nil, fmt.Errorf("engine %q is part of this program, and has no file of its own to pin", name)
		}
		if !f.Declared {
			if _, ok := s.Options.Builtins.Info(name); ok {
				return nil, fmt.Errorf("engine %q is one of sbxhost's own, and a pin would have to change with every release", name)
			}
		}
		files = append(files, f)
	}
	return files, nil
}
