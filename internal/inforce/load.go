package inforce

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/shared"
)

// Caller is the world of who asks: a program, or a client of one.
type Caller struct {
	Dir      string // the current directory; empty where it was removed
	Environ  []string
	Builtins host.Builtins
	Inject   map[string]shared.Engine // ahead of all other engines
	// Warn says what the user should know; OnForeignConfig names another tool's configuration that was
	// passed by. Both may be nil.
	Warn, OnForeignConfig func(string)
	// Trust asks the user to trust a configuration that was found in the workspace. An error
	// takes the place of the refusal, with which all other answers but true end. Nil refuses.
	Trust func(context.Context, *Untrusted) (bool, error)
}

// WorkingDir is the current directory of this process, "" where it was removed. One that its user may not search
// is one, too.
func WorkingDir() string {
	dir, err := os.Getwd()
	if err != nil {
		dir, _ = syscall.Getwd()
	}
	if !filepath.IsAbs(dir) { // as Linux has it of one that nothing leads to
		return ""
	}
	return dir
}

// Untrusted is a configuration whose text is not what its user has trusted.
type Untrusted struct {
	Path     string
	Text     []byte
	Changed  bool   // since it was trusted
	Previous string // what was trusted then
}

// Config is a configuration that may be used.
type Config struct {
	File    *config.File
	Origin  config.Origin
	Options host.Options
}

// Hinted is an error with a line on what to do about it.
type Hinted struct {
	Err  error
	Hint string
}

func (e *Hinted) Error() string { return e.Err.Error() }
func (e *Hinted) Unwrap() error { return e.Err }

// InvalidError says that a file has errors.
type InvalidError struct {
	File        *config.File
	Diagnostics config.Diagnostics
}

func (e *InvalidError) Error() string { return e.Diagnostics.Error() }

// Load reads the configuration in force: the one that explicit names, or else the one that is
// found. Its Options are to be completed. The error is an *InvalidError for one with mistakes in it.
func (c *Caller) Load(ctx context.Context, explicit string) (*Config, error) {
	path, origin, err := c.Find(explicit)
	if err != nil {
		return nil, err
	}
	var file *config.File
	var diags config.Diagnostics
	if origin == config.OriginWorkspace {
		text, err := c.trustedText(ctx, path)
		if err != nil {
			return nil, err
		}
		file, diags = config.Parse(path, text, c.EvalInput())
	} else {
		if origin == config.OriginUser {
			if err := checkUserFile(path); err != nil {
				return nil, err
			}
		}
		file, diags = config.Load(path, c.EvalInput())
	}
	options, _ := file.Options()
	if diags.HasErrors() {
		return nil, &InvalidError{file, diags}
	}
	if origin == config.OriginWorkspace {
		// Where a symlink stands in its place, a command may lead that elsewhere:
		// trust is in the text, and another one is refused the next time.
		options.TrustChecked = true
		if options.Protected[0], err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
	}
	return &Config{file, origin, options}, nil
}

// Read finds and parses the configuration that would be in force, trusted or
// not: for those who only look at it.
func (c *Caller) Read(explicit string) (*config.File, config.Origin, config.Diagnostics, error) {
	path, origin, err := c.Find(explicit)
	if err != nil {
		return nil, 0, nil, err
	}
	if origin == config.OriginWorkspace {
		// A command can lead one to any file of its user's, and would have the lines
		// of that shown as errors.
		if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSymlink && !c.Trusts(path) {
			return nil, 0, nil, &Hinted{fmt.Errorf("%s was found in the workspace, is a symlink, and you have not trusted it", hostpath.Shown(path)),
				fmt.Sprintf("look where it leads, then name it: -config %s", hostpath.ShellQuoted(path))}
		}
	}
	file, diags := config.Load(path, c.EvalInput())
	return file, origin, diags, nil
}

// Find says which file is in force.
func (c *Caller) Find(explicit string) (string, config.Origin, error) {
	if c.Dir == "" {
		return "", 0, errors.New("the current directory was removed")
	}
	if _, err := wire.ParseReattach(c.Getenv(wire.ReattachEnv)); err != nil {
		return "", 0, err
	}
	path, origin, err := config.Find(config.LookupOptions{Explicit: explicit, Dir: c.Dir, Getenv: c.Getenv, OnForeignConfig: c.OnForeignConfig})
	if err == nil && origin == config.OriginWorkspace {
		path, err = TrustPlace(path)
	}
	if err == nil && (origin == config.OriginUser || origin == config.OriginBuiltin) {
		err = c.checkPassedBy(c.Dir)
	}
	return path, origin, err
}

// checkPassedBy refuses a directory in which a configuration that the user trusts is
// not in force for no other reason than that there is a .git below it. A command can
// make that, and the next one would run by another policy: with other files hidden,
// and unlogged.
func (c *Caller) checkPassedBy(dir string) error {
	files, top, err := config.PassedBy(config.LookupOptions{Dir: dir})
	if err != nil || len(files) == 0 {
		return err
	}
	store, err := c.Store()
	if err != nil {
		return nil // nothing is trusted
	}
	list, err := store.TrustList()
	if err != nil {
		return nil // likewise
	}
	for _, file := range files {
		place, err := TrustPlace(file)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(list, func(t approvals.Trusted) bool { return t.Path == place }) {
			return &Hinted{fmt.Errorf("%s, which you trust, is passed by here, since %s is a git repository of its own; nothing was run", hostpath.Shown(place), hostpath.Shown(top)),
				fmt.Sprintf("if it is none of yours, a command has made %s: remove it; else say what is to hold in it, by a config.hcl of its own or by -config %s", hostpath.ShellQuoted(filepath.Join(top, ".git")), hostpath.ShellQuoted(place))}
		}
	}
	return nil
}

// WritableDirs gives the directories that commands can write to, by some options and,
// for a path that lies elsewhere, by the repositories that it names on its way.
func (c *Caller) WritableDirs(o host.Options, path string) func() []string {
	return func() []string {
		o.Dir, o.Environ = c.Dir, c.Environ
		dirs := host.WritableDirs(o)
		for dir := filepath.Dir(c.Absolute(path)); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
				dirs = append(dirs, host.WritableDirs(host.Options{Dir: dir, Environ: c.Environ})...)
			}
		}
		return dirs
	}
}

// Absolute resolves a path that a person gave.
func (c *Caller) Absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(c.Dir, path)
}

// Getenv is os.Getenv of the caller.
func (c *Caller) Getenv(name string) string {
	value, _ := c.LookupEnv(name)
	return value
}

// LookupEnv is os.LookupEnv of the caller.
func (c *Caller) LookupEnv(name string) (value string, found bool) {
	for _, entry := range c.Environ {
		if k, v, ok := strings.Cut(entry, "="); ok && k == name {
			value, found = v, true // the last one counts, as in os/exec
		}
	}
	return value, found
}
