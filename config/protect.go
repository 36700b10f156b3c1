package config

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/glob"
	"github.com/sbxhost/sbxhost/host"
)

// pathPatterns are paths and patterns of package glob. They stay as they were
// written: what they are relative to is the workspace, which the host knows.
func (d *decoder) pathPatterns(it item) []string {
	items, ok := d.elements(it)
	if !ok {
		return nil
	}
	list := make([]string, 0, len(items))
	for _, e := range items {
		s, ok := d.text(e)
		if !ok {
			continue
		}
		first, _, _ := strings.Cut(s, "/")
		switch _, err := glob.Parse(s); {
		case err != nil && e.hidden:
			d.invalid(e, "the value is not a path or pattern")
		case s == "~" || s == "~/":
			d.invalid(e, "%s is the home directory itself; name what in it is meant", e.show(s))
		case err != nil:
			d.invalid(e, "%v", err)
		case strings.HasPrefix(first, "~") && first != "~":
			d.invalid(e, "%s: only ~/... is expanded; write the path out, or \\~ for the character", e.show(s))
		default:
			list = append(list, s)
		}
	}
	return list
}

// givenUp are names of what is protected by default.
func (d *decoder) givenUp(it item) []string {
	items, ok := d.elements(it)
	if !ok {
		return nil
	}
	names := make([]string, 0, len(items))
	for _, e := range items {
		s, ok := d.text(e)
		if !ok {
			continue
		}
		if known := host.DefaultProtected(); !slices.Contains(known, strings.TrimSuffix(s, "/")) {
			d.invalid(e, "%s is not protected by default, or cannot be given up; there are %s", e.show(s), list(quoted(known), "and"))
			continue
		}
		names = append(names, s)
	}
	return names
}

// socketPaths are paths of socket files. They are relative to the file, like
// those of bind_paths.
func (d *decoder) socketPaths(it item) []string {
	items, ok := d.elements(it)
	if !ok {
		return nil
	}
	paths := make([]string, 0, len(items))
	for _, e := range items {
		if p, ok := d.bindPath(e); ok {
			paths = append(paths, p)
		}
	}
	return paths
}

// fileNames are names without a directory.
func (d *decoder) fileNames(it item) []string {
	items, ok := d.elements(it)
	if !ok {
		return nil
	}
	names := make([]string, 0, len(items))
	for _, e := range items {
		s, ok := d.text(e)
		switch {
		case !ok:
		case s == "" || filepath.Base(s) != s || s == "." || s == "..":
			d.invalid(e, "%s is not the name of a file", e.show(s))
		default:
			names = append(names, s)
		}
	}
	return names
}
