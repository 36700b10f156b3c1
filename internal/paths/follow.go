package paths

import (
	"errors"
	"path"
	"slices"
	"strings"
)

// MaxLinks is how many symlinks a path may go through, as in Linux.
const MaxLinks = 40

// ErrLinks is the error for a path that goes through more of them.
var ErrLinks = errors.New("goes through too many symlinks")

// A Step is what lies at one path on the way.
type Step struct {
	Missing bool   // nothing, so that the way ends here
	Target  string // of a symlink, as it is written; else empty
}

// Follow walks from the directory at, whose path has no symlink in it, by the
// names in rest, which may hold "." and "..". look says what lies at a path,
// whose directory has been walked already; more says whether names are left.
// Follow gives the path to which that leads, and whether all of it is there.
// What is missing keeps its spelling.
func Follow(at, rest string, look func(p string, more bool) (Step, error)) (end string, there bool, err error) {
	names := strings.Split(rest, "/")
	for links := 0; len(names) > 0; {
		name := names[0]
		names = names[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := strings.TrimSuffix(at, "/") + "/" + name
		step, err := look(next, slices.ContainsFunc(names, func(n string) bool { return n != "" }))
		switch {
		case err != nil:
			return next, false, err
		case step.Missing && len(names) == 0:
			return next, false, nil
		case step.Missing:
			return path.Join(next, path.Join(names...)), false, nil
		case step.Target == "":
			at = next
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
	return at, true, nil
}
