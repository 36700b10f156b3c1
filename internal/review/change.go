package review

import (
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// Kind is the kind of file at a path of a layer, by the system's number: the highest four bits of its
// mode.
type Kind uint8

const (
	Absent    Kind = 0
	Fifo      Kind = 1
	Device    Kind = 2 // of characters or, here, of blocks
	Directory Kind = 4
	File      Kind = 8
	Symlink   Kind = 10
	Socket    Kind = 12
	Whiteout  Kind = 16 // in an upper layer: the path is deleted
)

// String returns text for people.
func (k Kind) String() string {
	return [...]string{Absent: "nothing", Fifo: "fifo", Device: "device", Directory: "directory", File: "file", Symlink: "symlink", Socket: "socket", Whiteout: "whiteout"}[k]
}

// A Node describes the file at a path of one layer.
type Node struct {
	Kind   Kind
	Mode   uint32 // permissions, with set-user-ID, set-group-ID and sticky bits
	uid    uint32
	gid    uint32
	Size   int64
	dev    uint64
	ino    uint64
	links  uint64
	mtime  int64 // nanoseconds, as ctime
	ctime  int64
	Target string // of a symlink
	opaque bool   // a directory of an upper layer that hides the lower one
}

// same reports whether n is unchanged, except for what a rename changes.
func (n *Node) same(m *Node) bool {
	return n.Kind == m.Kind && n.ino == m.ino && n.dev == m.dev && (n.Kind == Directory || n.Size == m.Size && n.mtime == m.mtime)
}

// sum identifies one of the contents of a tree by what an edit changes. The sums of all of them are
// added, in any order. exact adds what differs in a copy, or in a file that was renamed.
func (n *Node) sum(p string, exact bool) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%d", p, n.Kind)
	if exact {
		fmt.Fprintf(h, " %d", n.ino)
	}
	if n.Kind != Directory { // the names change its size and times
		fmt.Fprintf(h, " %d %d", n.Size, n.mtime)
		if exact {
			fmt.Fprintf(h, " %d", n.ctime)
		}
	}
	return h.Sum64()
}

// Op is what a change does.
type Op uint8

const (
	Added Op = iota
	Modified
	Deleted
	Mode // only the permissions
)

// String returns text for people and for JSON.
func (o Op) String() string { return [...]string{"added", "modified", "deleted", "mode"}[o] }

// A Change is one path at which a review differs from the workspace.
type Change struct {
	Shown string `json:"path"` // relative to the workspace, or absolute
	Op    Op     `json:"op"`
	Old   Node   `json:"old"` // the host's; Absent for an added path
	New   Node   `json:"new"` // the review's; Absent for a deleted path
	// Refused says why the change can never be applied: "a socket". A person can leave it out.
	Refused string `json:"refused"`
	// Conflict says what the host did to the path since the review began.
	Conflict string `json:"conflict"`
	// Attributes names the extended attributes and access control lists in which New and Old
	// differ. An apply writes them with the file or directory, but not with a change of Mode.
	Attributes string `json:"attributes"`
	// Uncompared says that nobody knows whether the contents are modified; see maxCompared.
	Uncompared bool `json:"uncompared,omitempty"`
	// Note is what a person should know about the change.
	Note string `json:"note"`

	layer  int    // index of its tree
	path   string // relative to that tree
	hidden bool   // commands cannot see it
	// whiteouts says that a directory has whiteouts, which Apply leaves behind: the host has
	// nothing there either.
	whiteouts bool

	top uint32 // the permissions of its layer's directory on the host
	git string // its path in its git directory; may be empty
	// object says that it adds objects, or a directory of them, to a repository of the host.
	object bool
}

// Text is Line, and what should be known of the change.
func (c *Change) Text() string {
	line := c.Line()
	for _, more := range [...][2]string{{"refused: ", c.Refused}, {"conflict: ", c.Conflict}, {"", c.Note}} {
		if more[1] != "" {
			line += "; " + more[0] + hostpath.Line(more[1])
		}
	}
	return line
}

// Line describes the change on one line.
func (c *Change) Line() string {
	var more []string
	one, other := &c.New, c.Op == Modified && c.Old.Kind != c.New.Kind
	if c.Op == Deleted {
		one = &c.Old
	}
	modes := c.Op != Deleted && c.Old.Kind == c.New.Kind && c.Old.Mode != c.New.Mode && c.New.Kind != Symlink
	switch {
	case other:
		more = append(more, c.Old.Kind.String()+" -> "+c.New.Kind.String())
	case !modes && (one.Kind == Directory || one.Kind == Fifo || one.Kind == Socket || one.Kind == Device):
		more = append(more, one.Kind.String())
	}
	switch {
	case one.Kind == Symlink:
		more = append(more, "symlink to "+strconv.Quote(one.Target))
	case (other || c.Op == Added) && one.Kind == File && one.Mode&0o111 != 0:
		more = append(more, "executable")
	}
	if modes {
		more = append(more, fmt.Sprintf("mode %04o -> %04o", c.Old.Mode, c.New.Mode))
	} else if c.unsaid() {
		more = append(more, fmt.Sprintf("mode %04o", c.New.Mode))
	}
	if owners := c.owners(); owners != "" {
		more = append(more, owners)
	}
	if c.Uncompared {
		more = append(more, "not compared")
	}
	if c.Attributes != "" && c.Op == Mode {
		more = append(more, "not applied: "+c.Attributes)
	} else if c.Attributes != "" {
		more = append(more, c.Attributes)
	}
	line := fmt.Sprintf("%-8s %s", c.Op, hostpath.Shown(c.Shown))
	if len(more) > 0 {
		line += " (" + strings.Join(more, ", ") + ")"
	}
	return line
}

// owners describes the users and groups of what another's file is replaced by.
func (c *Change) owners() string {
	if c.Op != Modified || c.Old.uid == c.New.uid && c.Old.gid == c.New.gid {
		return ""
	}
	return fmt.Sprintf("owner %d:%d -> %d:%d", c.Old.uid, c.Old.gid, c.New.uid, c.New.gid)
}

// unsaid reports whether git's diff does not show the final permissions: git only knows whether a
// file is executable. For a new file it reports a mode that no usual umask gives: others can write
// to it though not to the workspace, its owner cannot read or write it, or it has a special bit.
// Git's own objects are read-only.
func (c *Change) unsaid() bool {
	switch mode := c.New.Mode; {
	case c.New.Kind != File && c.New.Kind != Directory && c.New.Kind != Fifo:
		return false
	case c.New.Kind != c.Old.Kind:
		owner := uint32(0o600)
		if c.New.Kind == Directory {
			owner = 0o700
		} else if objects(c.git) {
			owner = 0o400
		}
		return mode&(0o2022&^c.top|0o5000) != 0 || mode&owner != owner
	case c.New.Kind == File:
		return (mode^c.Old.Mode)&^0o111 != 0
	default:
		return mode != c.Old.Mode
	}
}

// Digest is equal for equal changes only: the kernel changes a file's inode or change time at every
// write. It has the notes: a command without a review can make a repository of the directory of a file
// that somebody has read. Of a file of the host's it has the inode, too: another can come to its place with its
// directory, which is no conflict. Git writes its own files anew. Of the top it has no times: each
// look mounts the overlay, which gives the top its mode.
func Digest(changes []Change) string {
	sum := sha256.New()
	for i := range changes {
		c := changes[i]
		if c.path == "." {
			c.New.mtime, c.New.ctime = 0, 0
		}
		fmt.Fprintf(sum, "%d %q %d %d %o %d %d %d %d %q %q %q %s\n", c.layer, c.path, c.Op, c.New.Kind, c.New.Mode, c.New.Size, c.New.ino, c.New.mtime, c.New.ctime, c.New.Target, c.Attributes, c.Note, c.owners())
		if c.Op == Deleted || c.Old.Kind != Absent && c.git == "" {
			fmt.Fprintf(sum, "of %d %d\n", c.Old.Kind, c.Old.ino)
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:16])
}
