package review

import (
	"path"
	"slices"
	"strings"
)

// inGit is the path of what lies in a git directory, within that; "" is none.
func inGit(full string) string {
	at := strings.LastIndex(full+"/", "/.git/")
	if at < 0 {
		return ""
	}
	return strings.TrimSuffix((full + "/")[at+len("/.git/"):], "/")
}

// objects reports whether a path is one of git's objects, or a directory of them.
func objects(full string) bool { return strings.Contains("/"+inGit(full)+"/", "/objects/") }

// keepObjects leaves out what a review takes away of git's objects, where the repository itself stays,
// and what both sides have made: an object's name says its contents. One that nothing needs
// does no harm, and the host may have come to need it.
func keepObjects(source string, changes []Change) []Change {
	gone := map[string]bool{}
	for _, c := range changes {
		if c.Op == Deleted && path.Base(c.Path) == ".git" {
			gone[c.Path] = true
		}
	}
	return slices.DeleteFunc(changes, func(c Change) bool {
		if !objects(path.Join(source, c.Path)) || c.Old.Kind == Absent || c.New.Kind == Directory && c.Op != Mode {
			return false
		}
		for dir := path.Dir(c.Path); dir != "."; dir = path.Dir(dir) {
			if gone[dir] {
				return false
			}
		}
		// info/ is no object, and made anew by git.
		return c.Op == Deleted || c.Op == Modified && c.Old.Kind == c.New.Kind && !strings.Contains(inGit(path.Join(source, c.Path)), "objects/info/")
	})
}
