package scan

import (
	"cmp"
	"slices"
	"strings"
)

// MaxDepth is how many directories deep a scan searches a root. For deeper files, it reports the
// directory at which it stops. Each directory above a hidden path costs a mount, and a command can
// nest thousands in a second. The deepest trees that tools make, nested node_modules, have about
// 60.
const MaxDepth = 128

// Reason says why the scan reports a path.
type Reason uint8

const (
	Matched       Reason = iota // a pattern matches
	HardLink                    // another name of a Matched or SensitiveName file, or of a file in a Matched directory
	SensitiveName               // its name matches the query's Name, and it is not a directory
	Socket                      // a socket file
	Repository                  // a directory with a .git in it
	Bare                        // a directory that git itself takes for a repository
	NameMatch                   // its name matches the query's MatchName, whatever its type
	Unsearched                  // a directory that cannot be read
	TooDeep                     // a directory that is too deep, or has too long a path, to be searched
	OfWorktree                  // a directory that git takes for the git directory of a worktree
	Leads                       // a symlink to a directory of the trees, behind which a pattern can match, but not at its target
	Linked                      // a Matched or SensitiveName file with more hard links than the scan found
	LinksUnknown                // such a file whose inode number its directory does not give: the scan could not search for its other hard links
)

// Found is one path in a result.
type Found struct {
	Path       string
	Reason     Reason
	Dir        bool
	Symlink    bool   // Path is a symlink; its target is not followed
	Pattern    int    // of Matched and HardLink, and of what is Linked or LinksUnknown: the index in the Set; else -1
	LinkedName string // of HardLink: the name that matches
	UID        uint32 // of Unsearched: the owner
	inode      uint64 // of a regular file
}

// Merge returns the findings of two scans, in the order of the trees.
func Merge(a, b []Found) []Found {
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, func(a, b Found) int { return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Reason, b.Reason)) })
	return slices.CompactFunc(all, func(a, b Found) bool { return a.Path == b.Path && a.Reason == b.Reason })
}
