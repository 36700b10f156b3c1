package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/source"
)

// FileName is the name of a configuration file that is found, not named. Other tools have
// files of that name as well.
const FileName = "config.hcl"

// fileNames are what is looked for in each directory of a workspace, the first one first.
var fileNames = [...]string{"sbxhost.hcl", FileName}

// Origin says who named a configuration file, and so whose word it is. The
// zero value is the one that deserves no trust.
type Origin int

const (
	// OriginWorkspace is a file that happens to lie in or above the current
	// directory: whoever wrote the workspace wrote it.
	OriginWorkspace Origin = iota
	// OriginFlag is a file named on the command line.
	OriginFlag
	// OriginEnvironment is a file named by SBXHOST_CONFIG.
	OriginEnvironment
	// OriginUser is the file in the user's configuration directory.
	OriginUser
	// OriginBuiltin is the text that is part of the program; it has no path.
	OriginBuiltin
)

func (o Origin) String() string {
	return [...]string{"workspace", "-config", "$SBXHOST_CONFIG", "user", "built-in"}[o]
}

// LookupOptions are what the search for a file depends on.
type LookupOptions struct {
	Explicit        string                            // the value of -config; empty when not given
	Dir             string                            // the current directory, absolute
	Getenv          func(string) string               // reads the user's environment; nil: it is empty
	stat            func(string) (fs.FileInfo, error) // nil: os.Stat
	OnForeignConfig func(path string)                 // is told of another tool's config.hcl; nil: nobody is
}

// Find says which file is in force: the one that is named explicitly, that of
// SBXHOST_CONFIG, sbxhost.hcl, else config.hcl, in the current directory or above it up to the
// git top level (outside of a git repository: in the current directory alone; not a
// config.hcl without one block or attribute of ours: it is another tool's),
// config.hcl in sbxhost's directory below XDG_CONFIG_HOME or ~/.config, and
// else the built-in default, with an empty path.
//
// The path is absolute. A file that is named and is not there is an error that
// wraps fs.ErrNotExist; so is any other reason for not knowing whether a file
// is there, since passing it by would put another policy in force.
func Find(opts LookupOptions) (string, Origin, error) {
	if opts.Getenv == nil {
		opts.Getenv = func(string) string { return "" }
	}
	if opts.stat == nil {
		opts.stat = os.Stat
	}
	if opts.Dir == "" {
		return "", OriginWorkspace, errors.New("the current directory is not known")
	}

	if opts.Explicit != "" {
		return namedFile(opts, opts.Explicit, OriginFlag)
	}
	if path := opts.Getenv("SBXHOST_CONFIG"); path != "" {
		return namedFile(opts, path, OriginEnvironment)
	}

	top, inGit, err := gitTop(opts.Dir, opts.stat)
	if err != nil {
		return "", OriginWorkspace, err
	}
	if !inGit {
		top = filepath.Clean(opts.Dir)
	}
	var paths []string
	for dir := filepath.Clean(opts.Dir); ; dir = filepath.Dir(dir) {
		for _, name := range fileNames {
			paths = append(paths, filepath.Join(dir, name))
		}
		if dir == top || dir == filepath.Dir(dir) {
			break
		}
	}
	user := userFile(opts.Getenv)
	if user != "" {
		paths = append(paths, user)
	}
	for _, path := range paths {
		origin := OriginWorkspace
		if path == user {
			origin = OriginUser
		}
		if found, err := isFile(path, opts.stat); err != nil {
			return "", origin, err
		} else if found && origin == OriginWorkspace && filepath.Base(path) == FileName && isForeign(path) {
			if opts.OnForeignConfig != nil {
				opts.OnForeignConfig(path)
			}
		} else if found {
			return path, origin, nil
		}
	}
	return "", OriginBuiltin, nil
}

// isForeign reports whether a file has HCL, and nothing that a configuration of ours has, or
// that could be meant to be that. One that cannot be read or parsed may be ours.
func isForeign(path string) bool {
	text, err := source.Read(path)
	if err != nil {
		return false
	}
	parsed, diags := source.Parse(path, text)
	if diags.HasErrors() {
		return false
	}
	body := parsed.Body()
	names := slices.Collect(maps.Keys(body.Attributes))
	for _, b := range body.Blocks {
		names = append(names, b.Type)
	}
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return nearest(name, fileSchema.names()) != "" })
}

// namedFile is the file that somebody has named.
func namedFile(opts LookupOptions, path string, origin Origin) (string, Origin, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(opts.Dir, path)
	}
	if _, err := opts.stat(path); err != nil {
		return "", origin, fmt.Errorf("configuration named by %v: %w", origin, err)
	}
	return filepath.Clean(path), origin, nil
}

// PassedBy gives the configurations that Find does not look at since the git
// repository of the current directory lies in another one: those above its top
// level, up to that of the others, the nearest first; and that top level. A command
// can make a repository of any directory, and takes them out of force there.
func PassedBy(opts LookupOptions) (files []string, top string, err error) {
	if opts.stat == nil {
		opts.stat = os.Stat
	}
	inner, inGit, err := gitTop(opts.Dir, opts.stat)
	if err != nil || !inGit {
		return nil, "", err
	}
	for top = inner; inner != filepath.Dir(inner); {
		outer, inGit, err := gitTop(filepath.Dir(inner), opts.stat)
		if err != nil || !inGit {
			return files, top, err
		}
		for dir := filepath.Dir(inner); ; dir = filepath.Dir(dir) {
			for _, name := range fileNames {
				path := filepath.Join(dir, name)
				if found, err := isFile(path, opts.stat); err != nil {
					return nil, "", err
				} else if found {
					files = append(files, path)
				}
			}
			if dir == outer {
				break
			}
		}
		inner = outer
	}
	return files, top, nil
}

// userFile is the path of the user's own configuration, or empty when there is
// no telling.
func userFile(getenv func(string) string) string {
	// The XDG specification has relative values ignored.
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "sbxhost", FileName)
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "sbxhost", FileName)
	}
	return ""
}

// gitTop is the nearest directory from dir upwards that has a .git, which is a
// directory or, in worktrees and submodules, a file.
func gitTop(dir string, stat func(string) (fs.FileInfo, error)) (string, bool, error) {
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		_, err := stat(filepath.Join(dir, ".git"))
		if err == nil {
			return dir, true, nil
		}
		if !absent(err) {
			return "", false, fmt.Errorf("looking for the git top level: %w", err)
		}
		if dir == filepath.Dir(dir) {
			return "", false, nil
		}
	}
}

func isFile(path string, stat func(string) (fs.FileInfo, error)) (bool, error) {
	info, err := stat(path)
	switch {
	case err == nil:
		return !info.IsDir(), nil
	case absent(err):
		return false, nil
	}
	return false, fmt.Errorf("looking for a configuration: %w", err)
}

func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
