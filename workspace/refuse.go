//go:build unix

package workspace

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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

// homeParents are the directories whose direct children are homes.
func homeParents(goos string) []string {
	if goos == "darwin" {
		return []string{"/home", "/Users"}
	}
	return []string{"/home"}
}

// refusal says why p cannot be a project root, or returns "". It looks only at its arguments. p and
// home are absolute and clean.
func refusal(goos, p, home string) string {
	fold := func(q string) string { return q }
	if goos == "darwin" { // the file system folds case
		fold = func(q string) string { return strings.ToLower(foldDarwin(q)) }
	}
	p, home = fold(p), fold(home)
	for _, d := range refusedRoots(goos) {
		if p == fold(d) {
			return "it is a system or shared directory"
		}
	}
	for _, d := range homeParents(goos) {
		if filepath.Dir(p) == fold(d) {
			return "it is a home directory"
		}
	}
	switch {
	case home == "":
	case p == home:
		return "it is your home directory"
	case paths.Inside(p, home):
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

// refuseRoot is refusal that also compares identities, so that a bind mount or a merged /usr (where
// /lib is /usr/lib) cannot evade the list.
func refuseRoot(field, raw, resolved, rawHome, home string) error {
	why := cmp.Or(refusal(runtime.GOOS, resolved, home), refusal(runtime.GOOS, raw, home), refusal(runtime.GOOS, raw, rawHome), refusedIdentity(resolved, home))
	if why == "" {
		return nil
	}
	return fmt.Errorf("%s: %q: %w: %s; name a project directory below it", field, resolved, ErrRefusedRoot, why)
}

func refusedIdentity(p, home string) string {
	same := func(p, q string) bool { // not for missing ones, which New reports
		a, err := os.Stat(p)
		b, otherErr := os.Stat(q)
		return err == nil && otherErr == nil && os.SameFile(a, b)
	}
	for _, d := range refusedRoots(runtime.GOOS) {
		if same(p, d) {
			return "it is " + d + " under another name"
		}
	}
	for _, d := range homeParents(runtime.GOOS) {
		if same(filepath.Dir(p), d) {
			return "it is a home directory"
		}
	}
	if home != "" && same(p, home) {
		return "it is your home directory under another name"
	}
	return ""
}
