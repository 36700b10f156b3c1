package inforce

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/source"
	"github.com/sbxhost/sbxhost/shared"
)

// Caller describes the program that asks, or its client.
type Caller struct {
	Dir      string // the current directory; empty if it was removed
	Environ  []string
	Builtins host.Builtins
	Inject   map[string]shared.Engine // engines that take precedence over all others
	// Trust asks the user to trust a configuration in the workspace. Load refuses the configuration
	// unless the answer is true; an error replaces the refusal. Nil refuses.
	Trust func(context.Context, *UntrustedFile) (bool, error)
}

// WorkingDir returns the current directory of this process, or "" if it was removed. It also
// returns a directory that its user may not search.
func WorkingDir() string {
	dir, err := os.Getwd()
	if err != nil {
		dir, _ = syscall.Getwd()
	}
	if !filepath.IsAbs(dir) { // Linux returns this for a directory without a path
		return ""
	}
	return dir
}

// UntrustedFile is a configuration whose text its user has not trusted.
type UntrustedFile struct {
	Path     string
	Text     []byte
	Changed  bool   // since the user trusted it
	Previous string // the text that the user trusted
}

// Config is a configuration that may be used.
type Config struct {
	File    *config.File
	Origin  config.Origin
	Options host.Options
}

// Place is FILE:LINE of an attribute, relative to a directory that contains the file; "" if no file sets it.
func (c *Config) Place(dir, sandbox, attribute string) string {
	at, ok := c.File.Locate(sandbox, attribute)
	if attribute == "" || c.File.Path() == "" || !ok {
		return ""
	}
	name := at.Filename
	if rel, err := filepath.Rel(dir, name); err == nil && filepath.IsLocal(rel) {
		name = rel
	}
	return fmt.Sprintf("%s:%d", hostpath.Shown(name), at.Start.Line)
}

// HintedError is an error with a line that says what to do.
type HintedError struct {
	Err  error
	Hint string
}

func (e *HintedError) Error() string { return e.Err.Error() }
func (e *HintedError) Unwrap() error { return e.Err }

// InvalidError says that a file has errors.
type InvalidError struct {
	File        *config.File
	Diagnostics config.Diagnostics
}

func (e *InvalidError) Error() string { return e.Diagnostics.Error() }

// Load reads the configuration in force: the file that explicit names, or else the one that Find
// finds. The caller must complete its Options. The error is an *InvalidError if the file has
// errors.
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
		options.TrustChecked = append(options.Protected, c.trustedBelow(filepath.Dir(path))...)
		options.Protected = nil
	} else { // the file itself is obeyed unchecked
		options.TrustChecked = c.trustedBelow(options.Workspace.Root)
	}
	return &Config{file, origin, options}, nil
}

// trustedBelow lists the trusted files in a directory, or in the git work tree around it. A command that
// could remove one would take what it says out of force there.
func (c *Caller) trustedBelow(dir string) (files []string) {
	store, err := c.Store()
	if err != nil {
		return nil
	}
	list, _ := store.TrustList() // else nothing is trusted
	if dir = c.Absolute(dir); len(list) > 0 {
		for top := range paths.Up(dir) {
			if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
				dir = top
				break
			}
		}
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return nil
		}
	}
	for _, t := range list {
		if !paths.Inside(dir, t.Path) {
			continue
		}
		if info, err := os.Lstat(t.Path); err == nil && info.Mode().IsRegular() {
			files = append(files, t.Path)
		}
	}
	return files
}

// Read finds and parses the configuration that would be in force, trusted or not: for callers that
// only look at it.
func (c *Caller) Read(explicit string) (*config.File, config.Origin, config.Diagnostics, error) {
	path, origin, err := c.Find(explicit)
	if err != nil {
		return nil, 0, nil, err
	}
	if origin == config.OriginWorkspace {
		// A command can redirect the path to any file of its user, and its lines would be shown as
		// errors.
		if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSymlink && !c.Trusts(path) {
			return nil, 0, nil, &HintedError{fmt.Errorf("%s was found in the workspace, is a symlink, and you have not trusted it", hostpath.Shown(path)),
				fmt.Sprintf("look where it leads, then name it: -config %s", hostpath.ShellQuoted(path))}
		}
	}
	file, diags := config.Load(path, c.EvalInput())
	return file, origin, diags, nil
}

// Find returns the file in force.
func (c *Caller) Find(explicit string) (string, config.Origin, error) {
	if c.Dir == "" {
		return "", 0, errors.New("the current directory was removed")
	}
	path, origin, err := config.Find(config.LookupOptions{Explicit: explicit, Dir: c.Dir, Getenv: c.Getenv})
	if err == nil && origin == config.OriginWorkspace {
		path, err = TrustPath(path)
	}
	if err == nil && (origin == config.OriginUser || origin == config.OriginBuiltin) {
		err = c.checkPassedBy()
	}
	return path, origin, err
}

// checkPassedBy refuses a directory where a trusted configuration above it is out of force: because
// of a .git between them, or because the search does not go up outside of git. A command can make
// any directory, and a .git in it, and the next command would run by another policy: with other
// hidden files, and without the log.
func (c *Caller) checkPassedBy() error {
	store, err := c.Store()
	if err != nil {
		return nil // nothing is trusted
	}
	list, err := store.TrustList()
	if err != nil {
		return nil // nothing is trusted
	}
	passed := "" // the nearest
	for dir := range paths.Up(filepath.Clean(c.Dir)) {
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return err
		}
		for _, t := range list {
			if _, err := os.Lstat(t.Path); len(t.Path) > len(passed) && paths.Inside(filepath.Dir(t.Path), dir) && !errors.Is(err, fs.ErrNotExist) {
				passed = t.Path
			}
		}
	}
	if passed == "" {
		return nil
	}
	named := hostpath.ShellQuoted(passed)
	return &HintedError{fmt.Errorf("%s, which you trust, does not apply in %s; nothing was run", hostpath.Shown(passed), hostpath.Shown(c.Dir)),
		fmt.Sprintf("it holds in its git repository, or without git in its own directory: write a config.hcl here, or use -config %s, or: sbxhost trust -revoke %s; if neither you nor git worktree made the .git here, a command did: remove it", named, named)}
}

// MainWorktree returns the configuration of the main worktree, if the current directory lies in
// another one and origin says that no file of the workspace is in force: the branch may lack it. A
// command can make a .git that leads anywhere: name only a file that the user trusts.
func (c *Caller) MainWorktree(origin config.Origin) (path string) {
	for top := range paths.Up(filepath.Clean(c.Dir)) {
		text, err := source.Read(filepath.Join(top, ".git")) // fails for a directory
		if main, _, linked := strings.Cut(strings.TrimPrefix(string(text), "gitdir: "), "/.git/worktrees/"); linked && filepath.IsAbs(main) && origin >= config.OriginUser {
			path, _, _ = config.Find(config.LookupOptions{Dir: main})
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return path
}

// WritableDirs returns the directories that commands can write to, by some options and, for a path
// elsewhere, by the repositories on its way.
func (c *Caller) WritableDirs(o host.Options, path string) func() []string {
	return func() []string {
		o.Dir, o.Environ = c.Dir, c.Environ
		dirs := host.WritableDirs(o)
		for dir := range paths.Up(filepath.Dir(c.Absolute(path))) {
			if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
				dirs = append(dirs, host.WritableDirs(host.Options{Dir: dir, Environ: c.Environ})...)
			}
		}
		return dirs
	}
}

// Absolute resolves a path from a person.
func (c *Caller) Absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(c.Dir, path)
}

// Getenv is os.Getenv for the caller.
func (c *Caller) Getenv(name string) string {
	value, _ := c.LookupEnv(name)
	return value
}

// LookupEnv is os.LookupEnv for the caller.
func (c *Caller) LookupEnv(name string) (value string, found bool) {
	for _, entry := range c.Environ {
		if k, v, ok := strings.Cut(entry, "="); ok && k == name {
			value, found = v, true // the last one counts, as in os/exec
		}
	}
	return value, found
}
