package config

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// bindPath is hostPath, except that ~ stays: it is the home of the user that commands run as, which
// the host knows.
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
		host += "/" // it means a directory; the host checks that
	}
	return host, true
}

// hostPath makes a host path absolute: ~ is the home directory, and the file's directory is the
// base of relative paths.
func (d *decoder) hostPath(it item) (string, bool) {
	s, ok := d.text(it)
	first, rest, _ := strings.Cut(s, "/")
	switch {
	case !ok:
	case s == "":
		d.invalid(it, "the path is empty")
	case hasParent(s):
		// After a symlink, .. leads elsewhere than it seems to.
		d.invalid(it, `%s has a ".." in it; write the path out, or begin it with ~, ${home} or ${workspace.root}`, it.show(s))
	case first == "~" && d.home == "":
		d.invalid(it, "%s needs the home directory, which is not known because HOME is not set", it.show(s))
	case first == "~":
		return filepath.Join(d.home, rest), true
	case strings.HasPrefix(first, "~"):
		d.invalid(it, "%s: only ~ and ~/... are expanded, for your own home directory; write the path out", it.show(s))
	case strings.HasPrefix(first, "$"):
		d.invalid(it, "%s: shell variables are not expanded; write ~, ${home} or ${env.NAME}", it.show(s))
	case path.IsAbs(s): // also on Windows, for paths of another system
		return path.Clean(s), true
	case filepath.IsAbs(s):
		return filepath.Clean(s), true
	case !filepath.IsAbs(d.dir):
		d.invalid(it, "%s is relative, and there is no directory for relative paths", it.show(s))
	default:
		return filepath.Join(d.dir, s), true
	}
	return "", false
}

func (d *decoder) hostPaths(it item) []string { return d.good(it, d.hostPath) }

// insidePath is an absolute path inside the sandbox.
func (d *decoder) insidePath(it item) string {
	s, ok := d.text(it)
	switch {
	case !ok:
	case !strings.HasPrefix(s, "/"):
		d.invalid(it, "%s is not an absolute path; paths inside the sandbox must begin with /", it.show(s))
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
