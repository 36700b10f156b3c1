//go:build unix

package workspace

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// refusedRoots are directories that are no projects: the system's own, shared ones, and the parents of
// all homes. The last ones are macOS's, which mounts the volume of /Users elsewhere as well.
var refusedRoots = [...]string{
	"/", "/etc", "/var", "/proc", "/sys", "/dev", "/boot", "/root", "/run",
	"/usr", "/opt", "/lib", "/lib64", "/bin", "/sbin", "/tmp", "/home",
	"/private", "/Users", "/System", "/System/Volumes", "/System/Volumes/Data",
	"/Library", "/Applications", "/Volumes", "/cores",
}

// refusal says why p cannot be a project root, or returns "". same reports whether two paths lead to
// one directory. A directory has two paths by a bind mount, a merged /usr (where /lib is /usr/lib), a
// file system that ignores case, and macOS's links of volumes, which no readlink shows. p and home are
// absolute and clean.
func refusal(p, home string, same func(p, q string) bool) string {
	is := func(p string) func(string) bool {
		return func(q string) bool { return p == q || same(p, q) }
	}
	switch {
	case slices.ContainsFunc(refusedRoots[:], is(p)):
		return "it is a system or shared directory"
	case slices.ContainsFunc([]string{"/home", "/Users"}, is(filepath.Dir(p))):
		return "it is a home directory"
	case home == "":
	case is(p)(home):
		return "it is your home directory"
	case slices.ContainsFunc(slices.Collect(paths.Up(home)), is(p)):
		return "it holds your home directory"
	}
	return ""
}

// sameFile reports whether two paths lead to one file. New reports missing ones.
func sameFile(p, q string) bool {
	a, err := os.Stat(p)
	b, otherErr := os.Stat(q)
	return err == nil && otherErr == nil && os.SameFile(a, b)
}
