package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
)

// enginesPinCommand writes checksums into the configuration.
type enginesPinCommand struct{ *app }

func (*enginesPinCommand) Synopsis() string {
	return "Write the checksums of engines into a configuration"
}
func (*enginesPinCommand) takesCommand() bool { return false }

func (*enginesPinCommand) Help() string {
	return `Usage: sbxhost engines pin [-config FILE] [-n] [NAME...]

Write the SHA-256 of each engine's executable, as it is on this machine now, into
the sha256 of its engine block; an installed engine without a block gets one.
Comments and layout stay, as do the checksums of other platforms. From then on an
engine is started only if the file that is executed has that checksum. Without
NAME it pins every engine that has an engine block.

Check an engine before you pin it: a pin says that it stays the same, not that it
is good.

  -n  say what would be written, and write nothing`
}

// Run implements subcommand.
func (c *enginesPinCommand) Run(args []string) int {
	fs := newFlags("engines pin")
	explicit := configFlag(fs)
	dry := fs.Bool("n", false, "")
	if status, ok := c.parse(fs, c, args); !ok {
		return status
	}
	var w *writing
	if !*dry {
		var err error
		if w, err = c.lockConfig(*explicit); err != nil {
			return c.fail(err)
		}
		if w != nil {
			defer w.close()
		}
	}
	s, h, err := c.host(context.Background(), *explicit)
	if err != nil {
		return c.explainError(nil, nil, err)
	}
	defer h.Close()
	if s.file.Path() == "" {
		return c.fail(&hinted{errors.New("there is no configuration file to write to"), "name one with -config, or write one with sbxhost init"})
	}
	files, err := engineFiles(h, s, fs.Args(), false)
	if err != nil {
		return c.fail(err)
	}
	file := s.file
	var text []byte
	var b strings.Builder
	for _, f := range files {
		sum, err := host.Checksum(f.Path)
		if err != nil {
			return c.fail(fmt.Errorf("engine %q: %w", f.Name, err))
		}
		if sum == f.Pinned {
			fmt.Fprintf(&b, "%s: %s is pinned already\n", f.Name, sum)
			continue
		}
		text, err = file.Pin(config.Pin{Engine: f.Name, Source: f.Path, Platform: host.Platform(), SHA256: sum})
		if err != nil {
			return c.fail(err)
		}
		fmt.Fprintf(&b, "%s: %s of %s\n", f.Name, sum, quote(f.Path))
		var diags config.Diagnostics
		if file, diags = c.parseConfig(s.file.Path(), text); diags.HasErrors() {
			return c.explainError(nil, nil, c.invalid(file, diags))
		}
	}
	if text != nil && !*dry {
		before := s.file.Text()
		if err := w.replace(before, text); err != nil {
			return c.fail(err)
		}
		c.keepTrust(s.file.Path(), before, text)
	}
	return c.print(b.String())
}

// lockConfig locks the configuration in force before it is read. Where there is
// none, it gives nil.
func (c *enginesPinCommand) lockConfig(explicit string) (*writing, error) {
	path, _, err := c.find(explicit)
	if err != nil || path == "" {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, nil // of which who reads it tells more
	}
	return c.openWriting(path, host.Options{})
}

// enginesVerifyCommand compares engines with their checksums.
type enginesVerifyCommand struct{ *app }

func (*enginesVerifyCommand) Synopsis() string   { return "Compare engines with their pinned checksums" }
func (*enginesVerifyCommand) takesCommand() bool { return false }

func (*enginesVerifyCommand) Help() string {
	return `Usage: sbxhost engines verify [-config FILE] [-json] [NAME...]

Compare the executables of engines with the checksums in their engine blocks.
Nothing is started. Without NAME it looks at every engine that has an engine block.

Exit status: 0; 1 when one differs, or one that was named has no checksum; 125
when the question could not be answered.`
}

type verifiedEngine struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	Pinned string `json:"pinned"` // empty: no checksum for this platform
	SHA256 string `json:"sha256"`
	Status string `json:"status"` // "ok", "mismatch", "unpinned"
}

// Run implements subcommand.
func (c *enginesVerifyCommand) Run(args []string) int {
	fs := newFlags("engines verify")
	explicit := configFlag(fs)
	asJSON := fs.Bool("json", false, "")
	if status, ok := c.parse(fs, c, args); !ok {
		return status
	}
	s, h, err := c.host(context.Background(), *explicit)
	if err != nil {
		return c.explainError(nil, nil, err)
	}
	defer h.Close()
	files, err := engineFiles(h, s, fs.Args(), true)
	if err != nil {
		return c.fail(err)
	}
	status := 0
	list := []verifiedEngine{}
	var b strings.Builder
	for _, f := range files {
		v := verifiedEngine{Name: f.Name, Path: f.Path, Pinned: f.Pinned, Status: "ok"}
		if v.SHA256, err = host.Checksum(f.Path); err != nil {
			return c.fail(fmt.Errorf("engine %q: %w", f.Name, err))
		}
		switch v.Pinned {
		case v.SHA256:
			fmt.Fprintf(&b, "%s: ok, %s\n", v.Name, quote(v.Path))
		case "":
			v.Status = "unpinned"
			fmt.Fprintf(&b, "%s: no checksum is pinned for %s; that of %s is %s\n", v.Name, host.Platform(), quote(v.Path), v.SHA256)
			if fs.NArg() > 0 {
				status = statusDiffers
			}
		default:
			v.Status, status = "mismatch", statusDiffers
			fmt.Fprintf(&b, "%s: MISMATCH: that of %s is %s, and %s is pinned\n", v.Name, quote(v.Path), v.SHA256, v.Pinned)
		}
		list = append(list, v)
	}
	var failed int
	if *asJSON {
		failed = c.printJSON(list)
	} else {
		failed = c.print(b.String())
	}
	if failed != 0 {
		return failed
	}
	return status
}

// statusDiffers is the status of a comparison that found a difference.
const statusDiffers = 1

// engineFiles finds the executables of the engines that are asked for, or of
// all that have an engine block.
func engineFiles(h *host.Host, s *setup, asked []string, missingOK bool) ([]host.EngineFile, error) {
	names := sortedKeys(s.options.Engines)
	if len(asked) > 0 {
		var err error
		if names, err = engineNames(h, asked); err != nil {
			return nil, err
		}
	} else if len(names) == 0 && !missingOK {
		return nil, &hinted{fmt.Errorf("%s declares no engine", s.file.Path()), "name an installed one to have it declared and pinned"}
	}
	files := make([]host.EngineFile, 0, len(names))
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
