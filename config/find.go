package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/source"
)

// FileName is the name of a configuration file that Find looks for. Other tools have files of that
// name too.
const FileName = "config.hcl"

// fileNames are the names that Find tries in each directory, in this order.
var fileNames = [...]string{"sbxhost.hcl", FileName}

// Origin is who named a configuration file. The zero value deserves the least trust.
type Origin int

const (
	// OriginWorkspace is a file in or above the current directory, which the author of the
	// workspace may have written.
	OriginWorkspace Origin = iota
	// OriginFlag is a file from the command line.
	OriginFlag
	// OriginEnvironment is a file from SBXHOST_CONFIG.
	OriginEnvironment
	// OriginUser is the file in the user's configuration directory.
	OriginUser
	// OriginBuiltin is the text in the program; it has no path.
	OriginBuiltin
)

func (o Origin) String() string {
	return [...]string{"workspace", "-config", "$SBXHOST_CONFIG", "user", "built-in"}[o]
}

// LookupOptions are the inputs of Find.
type LookupOptions struct {
	Explicit string              // the value of -config; may be empty
	Dir      string              // the current directory, absolute
	Getenv   func(string) string // reads the user's environment; nil means an empty one
}

// Find returns the file in force. It is the first of:
//
//   - Explicit
//   - the file in SBXHOST_CONFIG
//   - sbxhost.hcl, else config.hcl, in the current directory or above it up to the git top level;
//     outside of git repositories only in the current directory. A config.hcl without a block or
//     attribute of ours belongs to another tool, and is skipped.
//   - sbxhost/config.hcl in XDG_CONFIG_HOME or ~/.config
//   - the built-in default, with an empty path
//
// The path is absolute. A named file that is missing is an error that wraps fs.ErrNotExist. If Find
// cannot see whether a file exists, that is an error too: to skip the file would put another policy
// in force.
func Find(opts LookupOptions) (string, Origin, error) {
	if opts.Getenv == nil {
		opts.Getenv = func(string) string { return "" }
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

	top, err := gitTop(opts.Dir)
	if err != nil {
		return "", OriginWorkspace, err
	}
	paths := filesUpTo(filepath.Clean(opts.Dir), top)
	user := userFile(opts.Getenv)
	if user != "" {
		paths = append(paths, user)
	}
	for _, path := range paths {
		origin := OriginWorkspace
		if path == user {
			origin = OriginUser
		}
		if found, err := isFile(path); err != nil {
			return "", origin, err
		} else if found && (origin != OriginWorkspace || filepath.Base(path) != FileName || !isForeign(path)) {
			return path, origin, nil
		}
	}
	return "", OriginBuiltin, nil
}

// filesUpTo lists the files that Find tries in dir and above it, up to top.
func filesUpTo(dir, top string) (paths []string) {
	for ; ; dir = filepath.Dir(dir) {
		for _, name := range fileNames {
			paths = append(paths, filepath.Join(dir, name))
		}
		if dir == top {
			return paths
		}
	}
}

// isForeign reports whether a file is HCL without any attribute or block that is like one of ours.
// A file that cannot be read or parsed may be ours.
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
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return source.Nearest(name, namesOf(&fileSchema)) != "" })
}

// namedFile returns the file that somebody named.
func namedFile(opts LookupOptions, path string, origin Origin) (string, Origin, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(opts.Dir, path)
	}
	if _, err := os.Stat(path); err != nil {
		return "", origin, fmt.Errorf("%v: %w", origin, err)
	}
	return filepath.Clean(path), origin, nil
}

// userFile is the path of the user's own configuration; "" if it is unknown.
func userFile(getenv func(string) string) string {
	// The XDG specification says to ignore relative values.
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "sbxhost", FileName)
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "sbxhost", FileName)
	}
	return ""
}

// gitTop is the nearest directory from dir upwards with a .git, which is a directory, or a file in
// worktrees and submodules; dir itself if there is none.
func gitTop(dir string) (string, error) {
	dir = filepath.Clean(dir)
	for top := dir; ; top = filepath.Dir(top) {
		_, err := os.Stat(filepath.Join(top, ".git"))
		if err == nil {
			return top, nil
		}
		if !hostpath.Gone(err) {
			return "", fmt.Errorf("looking for the git top level: %w", err)
		}
		if top == filepath.Dir(top) {
			return dir, nil
		}
	}
}

func isFile(path string) (bool, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil:
		return !info.IsDir(), nil
	case hostpath.Gone(err):
		return false, nil
	}
	return false, fmt.Errorf("looking for a configuration: %w", err)
}
