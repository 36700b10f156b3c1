//go:build unix

package workspace

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// refusedRoots returns directories that are no projects: the system's own, shared ones, and the
// parents of all homes.
func refusedRoots(goos string) []string {
	list := []string{
		"/", "/etc", "/var", "/proc", "/sys", "/dev", "/boot", "/root", "/run",
		"/usr", "/opt", "/lib", "/lib64", "/bin", "/sbin", "/tmp", "/home",
	}
	if goos == "darwin" {
		// foldDarwin removes /private, but it is also a directory itself.
		list = append(list, "/private", "/Users", "/System", "/System/Volumes",
			"/Library", "/Applications", "/Volumes", "/cores")
	}
	return list
}

// refusal says why p cannot be a project root, or returns "". same says whether two paths are one
// directory, as a bind mount or a merged /usr (where /lib is /usr/lib) make them. p and home are
// absolute and clean.
func refusal(goos, p, home string, same func(p, q string) bool) string {
	fold, parents := func(q string) string { return q }, []string{"/home"} // of homes
	if goos == "darwin" {                                                  // the file system folds case
		fold, parents = func(q string) string { return strings.ToLower(foldDarwin(q)) }, []string{"/home", "/Users"}
	}
	is := func(p string) func(string) bool {
		return func(q string) bool { return fold(p) == fold(q) || same(p, q) }
	}
	switch {
	case slices.ContainsFunc(refusedRoots(goos), is(p)):
		return "it is a system or shared directory"
	case slices.ContainsFunc(parents, is(filepath.Dir(p))):
		return "it is a home directory"
	case home == "":
	case is(p)(home):
		return "it is your home directory"
	case paths.Inside(fold(p), fold(home)):
		return "it holds your home directory"
	}
	return ""
}

// foldDarwin removes second spellings of macOS's directories: /tmp, /var and /etc are links into
// /private, and the data volume, joined to / by firmlinks that no readlink shows, is also mounted
// elsewhere.
func foldDarwin(p string) string {
	for _, prefix := range []string{"/System/Volumes/Data", "/private"} {
		if len(p) >= len(prefix) && strings.EqualFold(p[:len(prefix)], prefix) {
			switch rest := p[len(prefix):]; {
			case rest == "" && prefix == "/private":
			case rest == "":
				return "/"
			case rest[0] == '/':
				p = rest
			}
		}
	}
	return p
}

// refuseRoot is the error for a root that cannot be one. The names before symlinks count too: a home
// can be a symlink, as with automounted ones.
func refuseRoot(declared, resolved, declaredHome, home string) error {
	if why := cmp.Or(refusal(runtime.GOOS, resolved, home, sameFile), refusal(runtime.GOOS, declared, declaredHome, sameFile)); why != "" {
		return fmt.Errorf("%q: %w: %s; name a project directory below it", resolved, ErrRefusedRoot, why)
	}
	return nil
}

// sameFile reports whether two paths lead to one file. New reports missing ones.
func sameFile(p, q string) bool {
	a, err := os.Stat(p)
	b, otherErr := os.Stat(q)
	return err == nil && otherErr == nil && os.SameFile(a, b)
}
