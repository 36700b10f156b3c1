package paths

import (
	"errors"
	"path"
	"slices"
	"strings"
)

// MaxLinks is how many symlinks a path may go through, as in Linux.
const MaxLinks = 40

// ErrLinks is the error for a path with more symlinks.
var ErrLinks = errors.New("goes through too many symlinks")

// A Step is the file at one path on the way.
type Step struct {
	Missing bool   // nothing is there
	Target  string // of a symlink, as written; else empty
}

// Follow walks from the directory at, whose path has no symlink in it, by the names in rest, which
// may contain "." and "..". look returns the file at a path, whose directory Follow has already
// walked; more says whether names are left. Follow calls leave, if not nil, with each directory that a
// ".." leaves. It returns the final path, and whether all of it exists. It keeps the spelling of a
// missing part. A ".." after a missing directory leads on as if the directory existed, since a command
// can make it; until then the kernel finds nothing there.
func Follow(at, rest string, look func(p string, more bool) (Step, error), leave func(dir string)) (end string, there bool, err error) {
	names := strings.Split(rest, "/")
	missing := "" // the last missing path
	for links := 0; len(names) > 0; {
		name := names[0]
		names = names[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if leave != nil {
				leave(at)
			}
			at = path.Dir(at)
			continue
		}
		next := strings.TrimSuffix(at, "/") + "/" + name
		if missing != "" && Inside(missing, next) {
			at = next
			continue
		}
		step, err := look(next, slices.ContainsFunc(names, func(n string) bool { return n != "" }))
		switch {
		case err != nil:
			return next, false, err
		case step.Missing || step.Target == "":
			if at = next; step.Missing {
				missing = next
			}
			continue
		}
		if links++; links > MaxLinks {
			return next, false, ErrLinks
		}
		if strings.HasPrefix(step.Target, "/") {
			at = "/"
		}
		names = slices.Concat(strings.Split(step.Target, "/"), names)
	}
	return at, missing == "", nil
}
