package host

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
)

// trees are the host's files and directories that the mounts show, none within
// another. Toolchains are left out: they are programs and packages that anybody
// can download, by the hundred thousand.
func (m *mounts) trees() []string {
	var all []string
	for _, mount := range m.spec.Table {
		if mount.Access != shared.Private && !strings.Contains(mount.Why, "toolchains") {
			all = append(all, mount.Source)
		}
	}
	slices.Sort(all)
	var outer []string
	for _, p := range all {
		if !slices.ContainsFunc(outer, func(o string) bool { return inside(o, p) }) {
			outer = append(outer, p)
		}
	}
	return outer
}

// places are the paths inside at which the mounts show a path of the host.
func (m *mounts) places(host string) []string {
	var list []string
	for _, mount := range m.spec.Table {
		if mount.Access == shared.Private || !inside(mount.Source, host) {
			continue
		}
		at := path.Join(mount.Path, strings.TrimPrefix(host, mount.Source))
		if _, shown := m.cover(at); shown == host && !slices.Contains(list, at) {
			list = append(list, at)
		}
	}
	return list
}

// shown reports whether a path of the host is visible inside by a mount.
func (m *mounts) shown(host string) bool {
	return slices.ContainsFunc(m.spec.Table, func(have shared.Entry) bool {
		return have.Access != shared.Private && inside(have.Source, host)
	})
}

// maxLinks is how many symlinks a path may go through, as in Linux.
const maxLinks = 40

// follow gives where an absolute path of the host leads, and what is there: nil
// where it or a directory above it does not exist.
func follow(p string) (string, fs.FileInfo, error) { return followVia(p, func(string) {}) }

// followVia does that, and calls via with each symlink on the way: by the path of
// its directory, resolved, and its name.
func followVia(p string, via func(link string)) (string, fs.FileInfo, error) {
	cur, rest := "/", strings.Split(p, "/")
	var last fs.FileInfo
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			cur, last = filepath.Dir(cur), nil
			continue
		}
		next := filepath.Join(cur, name)
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			return filepath.Join(append([]string{next}, rest...)...), nil, nil
		case err != nil:
			return "", nil, err
		case info.Mode()&fs.ModeSymlink == 0:
			cur, last = next, info
			continue
		}
		via(next)
		if links++; links > maxLinks {
			return "", nil, &fs.PathError{Op: "follow", Path: p, Err: syscall.ELOOP}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", nil, err
		}
		if strings.HasPrefix(target, "/") {
			cur = "/"
		}
		last = nil
		rest = append(strings.Split(target, "/"), rest...)
	}
	if last == nil { // it ended in a ".."
		info, err := os.Lstat(cur)
		return cur, info, err
	}
	return cur, last, nil
}
