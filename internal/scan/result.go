package scan

import (
	"cmp"
	"slices"
	"strings"
)

// MaxDepth is how many directories deep a root is searched. What lies deeper is
// reported by the directory at which the search ends. Each directory above
// something that is hidden costs a mount, and a command can nest thousands in a
// second. The deepest trees that tools make, nested node_modules, have about 60.
const MaxDepth = 128

// Reason says why a path was found.
type Reason uint8

const (
	Matched         Reason = iota // a pattern matches
	HardLink                      // another name of a file that is Matched or Named, or lies in a directory that is
	NonDirNameMatch               // its name is asked for, and it is no directory
	Socket                        // a socket file
	Repository                    // a directory with a .git in it
	Bare                          // a directory that git takes for a repository itself
	NameMatch                     // its name is asked for, whatever it is
	Unsearched                    // a directory that cannot be read
	TooDeep                       // a directory that lies too deep, or whose path is too long, to be searched
	OfWorktree                    // a directory that git takes for the git directory of a worktree
)

// Found is one path that was found.
type Found struct {
	Path       string
	Reason     Reason
	Dir        bool
	Symlink    bool   // which Path is; where it leads is not followed
	Pattern    int    // of Matched and HardLink: the index in the Set; -1 for what is Named
	LinkedName string // of HardLink: the name that matches
	UID        uint32 // of Unsearched: who owns it
}

// A Result is what one scan found, in the order of the trees. It is shared and
// must not be changed.
type Result struct {
	Found []Found
	// Blind are matched files whose inode numbers directories do not give, so
	// that their other hard links could not be looked for.
	Blind []string
	// Linked are matched files that have hard links besides those found.
	Linked []string
}

// With is r with what was found in another way, in the same order.
func (r *Result) With(more []Found) *Result {
	if len(more) == 0 {
		return r
	}
	all := *r
	all.Found = slices.Concat(r.Found, more)
	all.order()
	return &all
}

func (r *Result) order() {
	slices.SortStableFunc(r.Found, func(a, b Found) int { return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Reason, b.Reason)) })
	r.Found = slices.CompactFunc(r.Found, func(a, b Found) bool { return a.Path == b.Path && a.Reason == b.Reason })
}
