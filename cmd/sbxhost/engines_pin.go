package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/host/launch"
	"github.com/sbxhost/sbxhost/inforce"
)

// enginesPin writes checksums of engines into the configuration.
func (a *app) enginesPin(fs *flag.FlagSet) func() error {
	explicit := configFlag(fs)
	dry := fs.Bool("n", false, "")
	return func() error {
		var w *writing
		if !*dry {
			var err error
			if w, err = a.lockConfig(*explicit); err != nil {
				return err
			}
			if w != nil {
				defer w.close()
			}
		}
		return a.withEngines(explicit, func(_ context.Context, s *setup, h *host.Host) error {
			return a.pin(s, h, w, fs.Args(), *dry)
		})()
	}
}

// pin does so, for those that are asked for, in a file that is locked as w says.
func (a *app) pin(s *setup, h *host.Host, w *writing, asked []string, dry bool) error {
	if s.file.Path() == "" {
		return &hinted{errors.New("there is no configuration file to write to"), "name one with -config, or write one with sbxhost init"}
	}
	files, err := engineFiles(h, s, asked, false)
	if err != nil {
		return err
	}
	before := s.file.Text()
	text, told, err := a.pinAll(s.file, files)
	if err != nil {
		return err
	}
	if !bytes.Equal(text, before) && !dry {
		if err := w.replace(before, text); err != nil {
			return err
		}
		a.keepTrust(s.file.Path(), before, text)
	}
	return a.print(told)
}

// pinAll gives the text of a configuration with the checksums of engines, and says what
// they are.
func (a *app) pinAll(file *config.File, files []launch.File) (text []byte, told string, err error) {
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
		told += fmt.Sprintf("%s: %s of %s\n", f.Name, sum, quote(f.Path))
		var diags config.Diagnostics
		if file, diags = config.Parse(file.Path(), text, a.caller().EvalInput()); diags.HasErrors() {
			return nil, "", a.invalid(&inforce.InvalidError{File: file, Diagnostics: diags})
		}
	}
	return text, told, nil
}

// lockConfig locks the configuration in force before it is read. Where there is
// none, it gives nil.
func (a *app) lockConfig(explicit string) (*writing, error) {
	path, _, err := a.caller().Find(explicit)
	if err != nil || path == "" {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, nil // of which who reads it tells more
	}
	return openWriting(a.dir, path, a.commandDirs(host.Options{}, path))
}

type verifiedEngine struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	Pinned string `json:"pinned"` // empty: no checksum for this platform
	SHA256 string `json:"sha256"`
	Status string `json:"status"` // "ok", "mismatch", "unpinned"
}

// enginesVerify compares engines with their checksums.
func (a *app) enginesVerify(fs *flag.FlagSet) func() error {
	explicit, asJSON := configFlag(fs), jsonFlag(fs)
	return a.withEngines(explicit, func(_ context.Context, s *setup, h *host.Host) error {
		files, err := engineFiles(h, s, fs.Args(), true)
		if err != nil {
			return err
		}
		status := 0
		list := []verifiedEngine{}
		var b strings.Builder
		for _, f := range files {
			v := verifiedEngine{Name: f.Name, Path: f.Path, Pinned: f.Pinned, Status: "ok"}
			if v.SHA256, err = launch.Checksum(f.Path); err != nil {
				return fmt.Errorf("engine %q: %w", f.Name, err)
			}
			switch v.Pinned {
			case v.SHA256:
				fmt.Fprintf(&b, "%s: ok, %s\n", v.Name, quote(v.Path))
			case "":
				v.Status = "unpinned"
				fmt.Fprintf(&b, "%s: no checksum is pinned for %s; that of %s is %s\n", v.Name, launch.Platform(), quote(v.Path), v.SHA256)
				if fs.NArg() > 0 {
					status = statusDiffers
				}
			default:
				v.Status, status = "mismatch", statusDiffers
				fmt.Fprintf(&b, "%s: MISMATCH: that of %s is %s, and %s is pinned\n", v.Name, quote(v.Path), v.SHA256, v.Pinned)
			}
			list = append(list, v)
		}
		if err := a.result(*asJSON, list, b.String()); err != nil {
			return err
		}
		return exit(status)
	})
}

// statusDiffers is the status of a comparison that found a difference.
const statusDiffers = 1

// engineFiles finds the executables of the engines that are asked for, or of
// all that have an engine block.
func engineFiles(h *host.Host, s *setup, asked []string, missingOK bool) ([]launch.File, error) {
	names := sortedKeys(s.options.Engines)
	if len(asked) > 0 {
		var err error
		if names, err = engineNames(h, asked); err != nil {
			return nil, err
		}
	} else if len(names) == 0 && !missingOK {
		return nil, &hinted{fmt.Errorf("%s declares no engine", s.file.Path()), "name an installed one to have it declared and pinned"}
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
			if _, ok := s.options.Builtins.Info(name); ok {
				return nil, fmt.Errorf("engine %q is one of sbxhost's own: it is checked against the version of this program at each start, and a pin would have to change with every release", name)
			}
		}
		files = append(files, f)
	}
	return files, nil
}
