package review

import (
	"fmt"
	"path"
	"strings"
)

// appliedPath is something that an apply has put into the workspace, or taken away.
type appliedPath struct {
	Layer int    `json:"l,omitempty"`
	Path  name   `json:"p"`
	Kind  Kind   `json:"k"`           // Absent: taken away
	CTime int64  `json:"c,omitempty"` // as the apply has left it
	Ino   uint64 `json:"i,omitempty"`
	Mode  uint32 `json:"m,omitempty"`
	New   bool   `json:"n,omitempty"` // a directory where none was
	// Index is what an index of git's says; one that git status has written since says the same.
	Index []byte `json:"x,omitempty"`
}

// A listing is a directory as it was when a review began.
type listing struct {
	ino   uint64
	mode  uint32
	names string // each between two zero bytes
}

func (l *listing) has(name string) bool { return strings.Contains(l.names, "\x00"+name+"\x00") }

// write adds a directory to a file of listings.
func (l *listing) write(to *strings.Builder, dir string) {
	fmt.Fprintf(to, "%s\x00%d %o%s\x00", dir, l.ino, l.mode, l.names)
}

// parseListings reads what was written, and gives its length: the last one may lack its end, as whoever wrote it
// was killed.
func parseListings(text string) (map[string]listing, int) {
	list := map[string]listing{}
	for rest := text; ; {
		one, more, ok := strings.Cut(rest, "\x00\x00")
		dir, one, _ := strings.Cut(one, "\x00")
		numbers, _, _ := strings.Cut(one, "\x00")
		l := listing{names: one[len(numbers):] + "\x00"}
		if n, _ := fmt.Sscanf(numbers, "%d %o", &l.ino, &l.mode); !ok || n < 2 {
			return list, len(text) - len(rest)
		}
		list[dir] = l
		rest = more
	}
}

// A footing is what is known of a directory of the host's that a change lies in.
type footing struct {
	dir    string
	exists bool
	same   bool // it is the directory that was there when the review began
	still  bool // and nothing in it has come, gone or been renamed since
	made   bool // nothing was there
}

func (c *Comparison) footing(dir string, l *Node, same bool) footing {
	return footing{dir: dir, exists: l.Kind == Directory, same: same, still: same && l.CTime <= c.Begun}
}

// within goes on in a directory.
func (c *Comparison) within(dir string, l *Node, in footing, do func(footing) error) error {
	same, err := c.stayed(dir, l, in)
	if err != nil {
		return err
	}
	f := c.footing(dir, l, same)
	if f.made = c.Known[dir].New; !same {
		had, err := c.had(dir, l, in)
		if err != nil {
			return err
		}
		f.made = had == no
	}
	return do(f)
}

// stayed reports whether what the host has at a path is what was there when the review began, or what the review
// itself has put there since. Of a directory that says nothing of what lies in it.
//
// Whoever writes to a file, or renames it, gives it another change time, which nobody can set. What lies in a
// directory that is renamed keeps its own, however: so it must be the same directory, too.
func (c *Comparison) stayed(p string, l *Node, in footing) (bool, error) {
	switch known, ours := c.Known[p]; {
	case !in.same:
		return false, nil
	case l.CTime <= c.Begun || l.Kind == Directory && in.still:
		return true, nil
	case ours:
		return known.Kind == l.Kind && known.Ino == l.Ino && (l.Kind == Directory || known.CTime == l.CTime), nil
	case l.Kind != Directory:
		return false, nil
	}
	listed, err := c.Listed()
	return listed[p].ino == l.Ino, err
}

// sameMode reports whether a directory that stayed has the permissions that it had.
func (c *Comparison) sameMode(p string, l *Node) (bool, error) {
	if known, ours := c.Known[p]; ours || l.CTime <= c.Begun {
		return !ours || known.Mode == l.Mode, nil
	}
	listed, err := c.Listed()
	one, ok := listed[p]
	return ok && one.mode == l.Mode, err
}

type answer uint8

const (
	no answer = iota
	yes
	maybe
)

func answerOf(b bool) answer {
	if b {
		return yes
	}
	return no
}

// had says whether anything was at a path when the review began, or as the review itself has left it.
func (c *Comparison) had(p string, l *Node, in footing) (answer, error) {
	known, ours := c.Known[p]
	switch {
	case ours:
		return answerOf(known.Kind != Absent), nil
	case in.still:
		return answerOf(l.Kind != Absent), nil
	case in.made:
		return no, nil
	case l.Kind != Absent:
		if stayed, err := c.stayed(p, l, in); err != nil || stayed {
			return yes, err
		}
	}
	listed, err := c.Listed()
	if one, ok := listed[in.dir]; ok {
		return answerOf(one.has(path.Base(p))), err
	}
	return maybe, err
}

// conflict says what the host did to what a change replaces.
func (c *Comparison) conflict(one *Change, in footing) (string, error) {
	l := &one.Old
	if !in.exists {
		return "", nil // then it is one to have a directory here
	}
	if l.Kind != Absent {
		stayed, err := c.stayed(one.Path, l, in)
		if err == nil && stayed && l.Kind == Directory && one.Op == Mode {
			stayed, err = c.sameMode(one.Path, l)
		}
		if err != nil || stayed { // what comes and goes in a directory is found by itself
			return "", err
		}
	}
	had, err := c.had(one.Path, l, in)
	if err != nil {
		return "", err
	}
	return conflicts[l.Kind != Absent][had], nil
}

// conflicts are what the host did, by whether something is there, and whether something was.
var conflicts = map[bool][3]string{
	true:  {no: "it was made in the workspace since", yes: "it was changed in the workspace since", maybe: "it was made or changed in the workspace since"},
	false: {yes: "it was removed from the workspace since", maybe: "it may have been removed from the workspace since"},
}
