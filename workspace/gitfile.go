//go:build unix

package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

const (
	maxGitPointer = 8 << 10 // a .git, commondir, gitdir or HEAD file: one path or ref
	maxGitConfig  = 1 << 20 // a git config that is searched for core.worktree
	maxGitEntries = 1 << 10 // listed worktrees
)

// readDir returns the sorted entries of a directory; none if it is missing or not a directory. If there
// are more than limit, it returns limit of them, and an error. A fifo does not block it. With the flag
// O_NOFOLLOW, a symlink is not a directory.
func readDir(dir string, flag, limit int) (entries []hostpath.Entry, err error) {
	fd, err := hostpath.Openat(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK|unix.O_CLOEXEC|flag, 0)
	if err == nil {
		entries, err = hostpath.Entries(nil, fd, limit)
		unix.Close(fd)
	}
	slices.SortFunc(entries, func(a, b hostpath.Entry) int { return strings.Compare(a.Name, b.Name) })
	switch {
	case len(entries) > limit:
		return entries[:limit], fmt.Errorf("more than %d files are in %.300q: %w", limit, dir, ErrGitLayout)
	case err == unix.ENOENT, err == unix.ENOTDIR, err == unix.ELOOP:
		return nil, nil
	case err != nil:
		return entries, fmt.Errorf("list %q: %w", dir, err)
	}
	return entries, nil
}

// quotedPath quotes the path in an error: a line end in it would forge lines.
func quotedPath(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return fmt.Errorf("%s %q: %w", e.Op, e.Path, e.Err)
	}
	return err
}

// dotGitPrefix is before the path in a .git file.
const dotGitPrefix = "gitdir: "

// pathIn returns the path after a prefix in a file of git; a relative one is relative to from. Like git, it
// drops line ends after the path.
func pathIn(file, prefix, from string) (string, error) {
	data, err := hostpath.ReadNoSymlinks(file, maxGitPointer)
	p, ok := strings.CutPrefix(strings.TrimRight(string(data), "\r\n"), prefix)
	if err == nil && (!ok || p == "" || strings.ContainsAny(p, "\x00\r\n")) {
		err = fmt.Errorf("%q does not have the form %q", file, prefix+"PATH")
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrGitLayout, quotedPath(err))
	}
	return absoluteIn(from, p), nil
}

// targetIn returns the existing path to which that path leads.
func targetIn(file, prefix, from string) (string, error) {
	p, err := pathIn(file, prefix, from)
	if err != nil {
		return "", err
	}
	if p, err = filepath.EvalSymlinks(p); err != nil {
		return "", fmt.Errorf("%q: %w: %w", file, ErrGitLayout, quotedPath(err))
	}
	return p, nil
}

// absoluteIn makes a path in a directory absolute, without other changes.
func absoluteIn(dir, p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return dir + "/" + p // not Join: ".." after a symlink is not lexical
}

// resolved returns where an absolute path leads, or the clean path if nothing is there.
func resolved(p string) string {
	if end, err := filepath.EvalSymlinks(p); err == nil {
		return end
	}
	return filepath.Clean(p)
}

// parseCoreWorktree returns the last core.worktree that a git config sets, or "".
func parseCoreWorktree(data []byte) (value string) {
	for _, value = range configValues(data, "worktree", func(section string) bool { return strings.EqualFold(section, "core") }) {
	}
	return value
}

// configValues returns the values of a key in some sections of a git config. It follows no includes,
// because git writes these keys into the file itself. It understands the form in which git writes them;
// at worst, sbxhost refuses a submodule.
func configValues(data []byte, key string, of func(section string) bool) (values []string) {
	in := false
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section, rest, ok := strings.Cut(line[1:], "]")
			in = ok && of(strings.TrimSpace(section))
			line = rest
		}
		k, v, ok := strings.Cut(line, "=")
		if in && ok && strings.EqualFold(strings.TrimSpace(k), key) {
			values = append(values, configQuotes.Replace(strings.TrimSpace(v)))
		}
	}
	return values
}

// configQuotes undoes the quoting of a value.
var configQuotes = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\t`, "\t", `\n`, "\n", `"`, "")
