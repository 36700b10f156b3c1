//go:build unix

package workspace

import (
	"cmp"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/paths"
)

// refusedRoots returns the directories that are nobody's project: the system's
// own, the shared ones, and the parents of all homes.
func refusedRoots(goos string) []string {
	list := []string{
		"/", "/etc", "/var", "/proc", "/sys", "/dev", "/boot", "/root", "/run",
		"/usr", "/opt", "/lib", "/lib64", "/bin", "/sbin", "/tmp", "/home",
		"/usr/lib", "/usr/lib64", "/usr/bin", "/usr/sbin",
	}
	if goos == "darwin" {
		// /private is folded away by foldDarwin, but is itself a directory.
		list = append(list, "/private", "/Users", "/System", "/System/Volumes",
			"/Library", "/Applications", "/Volumes", "/cores")
	}
	return list
}

// homeParents are the directories whose direct children are people's homes.
func homeParents(goos string) []string {
	if goos == "darwin" {
		return []string{"/home", "/Users"}
	}
	return []string{"/home"}
}

// refusal says why p cannot be a project root, or returns "". It looks at
// nothing but its arguments. p and home are absolute and clean.
func refusal(goos, p, home string) string {
	fold := func(p string) string { return p }
	if goos == "darwin" {
		// The file system folds case, so the comparison must.
		fold = func(p string) string { return strings.ToLower(foldDarwin(p)) }
	}
	p, home = fold(p), fold(home)
	switch {
	case slices.ContainsFunc(refusedRoots(goos), func(d string) bool { return p == fold(d) }):
		return "it is a system or shared directory"
	case slices.ContainsFunc(homeParents(goos), func(d string) bool { return filepath.Dir(p) == fold(d) }):
		return "it is a home directory"
	case home == "":
	case p == home:
		return "it is your home directory"
	case paths.Inside(p, home):
		return "it holds your home directory"
	}
	return ""
}

// foldDarwin removes the second spellings that macOS has for its directories:
// /tmp, /var and /etc are links into /private, and the data volume, which is
// joined to / by firmlinks that no readlink shows, is mounted a second time.
func foldDarwin(p string) string {
	for _, prefix := range []string{"/System/Volumes/Data", "/private"} {
		if len(p) >= len(prefix) && strings.EqualFold(p[:len(prefix)], prefix) {
			switch rest := p[len(prefix):]; {
			case rest == "" && prefix == "/private":
				// /private itself stays.
			case rest == "":
				return "/"
			case rest[0] == '/':
				p = rest
			}
		}
	}
	return p
}

// refuseRoot is refusal by each spelling of a root and of home. The name of a bind
// mount, which no command can make, is none.
func refuseRoot(field, raw, resolved, rawHome, home string) error {
	why := cmp.Or(refusal(runtime.GOOS, resolved, home), refusal(runtime.GOOS, raw, home), refusal(runtime.GOOS, raw, rawHome))
	if why == "" {
		return nil
	}
	return fmt.Errorf("%s: %q: %w: %s; name a project directory below it", field, resolved, ErrRefusedRoot, why)
}
