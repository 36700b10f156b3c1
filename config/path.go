package config

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// bindPath is a hostPath but that ~ stays: it is the home of the user that
// commands run as, whom the host knows.
func (d *decoder) bindPath(it item) (string, bool) {
	host, ok := d.hostPath(it)
	if !ok {
		return "", false
	}
	s, _ := d.text(it)
	if s == "~" || strings.HasPrefix(s, "~/") {
		host = path.Clean(s)
	}
	if strings.HasSuffix(s, "/") && host != "/" {
		host += "/" // a directory is meant: the host looks whether it is one
	}
	return host, true
}

// hostPath makes a path of the host absolute: ~ is the home directory, and a
// relative path is relative to the file's own directory.
func (d *decoder) hostPath(it item) (string, bool) {
	s, ok := d.text(it)
	if !ok {
		return "", false
	}
	first, rest, _ := strings.Cut(s, "/")
	switch {
	case s == "":
		d.invalid(it, "the path is empty")
	case hasParent(s):
		// After a symbolic link, .. is not what it looks like.
		d.invalid(it, `%s has a ".." in it; write the path out, or begin it with ~, ${home} or ${workspace.root}`, it.show(s))
	case first == "~" && d.home == "":
		d.invalid(it, "%s needs the home directory, which is not known since HOME is not set", it.show(s))
	case first == "~":
		return filepath.Join(d.home, rest), true
	case strings.HasPrefix(first, "~"):
		d.invalid(it, "%s: only ~ and ~/... are expanded, for your own home directory; write the path out", it.show(s))
	case strings.HasPrefix(first, "$"):
		d.invalid(it, "%s: shell variables are not expanded; write ~, ${home} or ${env.NAME}", it.show(s))
	case path.IsAbs(s): // on Windows, too, where it is another system's
		return path.Clean(s), true
	case filepath.IsAbs(s):
		return filepath.Clean(s), true
	case !filepath.IsAbs(d.dir):
		d.invalid(it, "%s is relative, and there is no directory that it could be relative to", it.show(s))
	default:
		return filepath.Join(d.dir, s), true
	}
	return "", false
}

func (d *decoder) hostPaths(it item) []string { return d.good(it, d.hostPath) }

// insidePath is an absolute path inside the sandbox.
func (d *decoder) insidePath(it item) string {
	s, ok := d.text(it)
	if !ok {
		return ""
	}
	switch {
	case !strings.HasPrefix(s, "/"):
		d.invalid(it, "%s is not an absolute path; inside the sandbox there is nothing that it could be relative to", it.show(s))
	case hasParent(s):
		d.invalid(it, `%s has a ".." in it; write the path out`, it.show(s))
	case path.Clean(s) == "/":
		d.invalid(it, "the root directory inside cannot be replaced; name a directory below it")
	default:
		return path.Clean(s)
	}
	return ""
}

func hasParent(s string) bool {
	return strings.Contains(s, "..") && slices.Contains(strings.Split(s, "/"), "..")
}
