package review

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// A Tree is one layer. Paths are relative to it; "." is the layer itself.
type Tree interface {
	Names(dir string) ([]string, error)
	// Look describes the file at a path whose directory exists; Absent is no error.
	Look(path string) (Node, error)
	// Attributes returns the extended attributes and access control lists at a path. There can be
	// more than the kernel lists.
	Attributes(path string) (map[string]string, error)
}

// maxChanges and maxText bound the memory for one look at a review: the number of changed paths,
// and the bytes of their names, symlink targets and attributes. A command can make far more.
const (
	maxChanges = 200_000
	maxText    = 64 << 20
)

// maxCompared bounds the bytes that one look at a review compares, in each layer. A command can give
// a large file thousands of names. A file beyond counts as modified.
const maxCompared = 2 << 30

var errManyBytes = errors.New("too much to be compared")

var (
	manyChanges = fmt.Sprintf("it changes more than %d paths", maxChanges)
	muchText    = fmt.Sprintf("the paths, symlink targets and attributes of its changes have more than %d MiB", maxText>>20)
)

// tooLarge is the error for a review that exceeds one of these bounds. most is the directory with
// most of the changes; "." means none.
func tooLarge(why, most string) error {
	remedy := "; remove some files with another command of the review, or discard it"
	if most != "." {
		remedy = fmt.Sprintf(", most of them in %q; remove some with another command of the review, or discard it and run its commands again with that directory in deny_paths", most)
	}
	return fmt.Errorf("%w: %s%s", errTooLarge, why, remedy)
}

// tooLarge names the directory with most of the changes.
func (c *Comparison) tooLarge(why string) error {
	var paths []string
	for i := range c.changes {
		paths = append(paths, "/"+c.changes[i].path)
	}
	most, _ := hostpath.MostIn(paths)
	return tooLarge(why, path.Join(".", most[1:]))
}

// usage is the used part of these bounds, and of maxCompared.
type usage struct {
	changes, text int
	compared      int64
}

// A Comparison finds the changes of one tree.
type Comparison struct {
	Layer        int
	Root         string // of the lower layer on the host: absolute links may lead here
	Upper, Lower Tree
	// Same reports whether the contents of a file are equal in both layers. It adds what it compares
	// to used, and returns errManyBytes beyond maxCompared.
	Same func(path string, used *int64) (bool, error)
	// Begun is the latest change time of host files that the first command found.
	Begun int64
	// Known is what the review itself has put there or removed since, and Root as it was at the
	// beginning: the top of Upper then had its permissions, and no attributes.
	Known  map[string]appliedPath
	Denied func(path string, directory bool) string // of Rules

	changes   []Change
	top       uint32 // the permissions of Root
	opaque    []opaqueDir
	unreads   map[string]bool // directories of which nobody knows all names
	whiteouts map[string]bool // directories with a whiteout of nothing
	used      usage
	merges    map[string]mergedNode
	walked    walked
}

// A mergedNode is what commands of the review see at a path.
type mergedNode struct {
	Node
	hides bool // the lower layer: it is opaque or new, or lies in such a directory
}

// An opaqueDir is a directory of an upper layer that hides the contents of the lower one: it has
// the opaque mark, or lies in such a directory. The kernel marks only the topmost new directory.
type opaqueDir struct {
	layer  int
	path   string
	unread bool // the names that it hides are unknown
}

// Changes returns the changes, a directory before its contents.
func (c *Comparison) Changes() ([]Change, error) {
	c.changes, c.unreads, c.whiteouts = nil, map[string]bool{}, map[string]bool{}
	top, root, err := c.look(".", layers{upper: true, lower: true})
	if c.top = root.Mode; err == nil {
		if top.Mode == c.Known["."].Mode { // no command has changed it
			top.Mode = root.Mode
		}
		err = c.compare(".", top, root, false)
	}
	if err != nil {
		return nil, err
	}
	for i := range c.changes {
		c.changes[i].whiteouts = c.whiteouts[c.changes[i].path]
	}
	for i := range c.opaque {
		c.opaque[i].unread = c.unreads[c.opaque[i].path]
	}
	return c.changes, nil
}

// layers are those of a directory that walk compares.
type layers struct {
	upper, lower bool
	hidden       bool // commands see only the upper one, as in an opaque directory
}

// walk compares a directory.
func (c *Comparison) walk(dir string, in layers) error {
	var names []string
	for _, one := range [...]struct {
		Tree
		used bool
	}{{c.Upper, in.upper}, {c.Lower, in.lower && (in.hidden || !in.upper)}} {
		if one.used {
			more, err := one.Names(dir)
			if err != nil {
				return c.unread(dir, err)
			}
			names = append(names, more...)
		}
	}
	held := 0
	for _, name := range names {
		held += len(name)
	}
	if err := c.useText(held); err != nil {
		return err
	}
	defer func() { c.used.text -= held }()
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		p := path.Join(dir, name)
		u, l, err := c.look(p, in)
		if err != nil {
			return c.unread(dir, err)
		}
		if err = c.compare(p, u, l, in.hidden); err != nil {
			return err
		}
	}
	return nil
}

// look describes a path in both layers. What the lower one alone has goes with its directory.
func (c *Comparison) look(p string, in layers) (u, l Node, err error) {
	u.Kind = Whiteout
	if in.upper {
		u, err = c.Upper.Look(p)
	}
	if err == nil && in.lower {
		l, err = c.Lower.Look(p)
	}
	return u, l, err
}

// unread refuses a directory that cannot be read, if that is the directory's fault: one path must
// not block all others.
func (c *Comparison) unread(dir string, err error) error {
	if isShortage(err) {
		return err
	}
	const why = "it cannot be read" // it may not be listed or searched, has too long a path, or was just moved
	c.unreads[dir] = true
	if n := len(c.changes); n > 0 && c.changes[n-1].path == dir {
		c.changes[n-1].Refused = why
		return nil
	}
	return c.append(&Change{layer: c.Layer, path: dir, Op: Modified, Old: Node{Kind: Directory}, New: Node{Kind: Directory}, Refused: why})
}

// append adds a change, unless there are too many.
func (c *Comparison) append(one *Change) error {
	if c.used.changes++; c.used.changes > maxChanges {
		return c.tooLarge(manyChanges)
	}
	c.changes = append(c.changes, *one)
	return c.useText(len(one.path) + len(one.Old.Target) + len(one.New.Target) + len(one.Attributes) + len(one.Refused))
}

func (c *Comparison) useText(n int) error {
	if c.used.text += n; c.used.text > maxText {
		return c.tooLarge(muchText)
	}
	return nil
}

// compare compares both layers at a path. hidden says that commands do not see the lower layer
// there.
func (c *Comparison) compare(p string, u, l Node, hidden bool) error {
	switch {
	case u.Kind != Whiteout && u.Kind != Absent:
	case l.Kind == Absent:
		c.whiteouts[path.Dir(p)] = true
		return nil
	case u.Kind == Absent:
		// A directory that the review made is opaque. Commands did not remove what the host has put
		// there since.
		if c.changed(p, &l) {
			return nil
		}
		fallthrough
	default:
		if err := c.add(Change{layer: c.Layer, path: p, Op: Deleted, Old: l}); err != nil || l.Kind != Directory {
			return err
		}
		return c.walk(p, layers{lower: true})
	}
	if hidden = u.opaque || hidden && u.Kind == Directory && l.Kind == Directory; hidden {
		c.opaque = append(c.opaque, opaqueDir{layer: c.Layer, path: p})
	}
	op, changed, err := c.operation(p, &u, &l)
	one := Change{layer: c.Layer, path: p, Old: l, New: u, Op: op}
	if one.Uncompared = errors.Is(err, errManyBytes); one.Uncompared {
		err = nil
	}
	if err == nil && (u.Kind == File || u.Kind == Directory || u.Kind == Fifo) { // other kinds have none that a command can set
		var had map[string]string
		if l.Kind == u.Kind {
			had, _ = c.Lower.Attributes(p) // after an error, all are named
		}
		now, unread := c.Upper.Attributes(p)
		if now[capabilities] != "" && op != Mode { // a rename or a write through a mapping leaves them to the file
			one.Refused = "a program with capabilities"
		}
		delete(now, capabilities)
		delete(had, capabilities)
		if p == "." {
			maps.DeleteFunc(had, func(name, _ string) bool { _, has := now[name]; return !has })
		}
		if one.Attributes = attributeDiff(now, had); unread != nil {
			one.Refused = "its extended attributes cannot be listed: " + unread.Error() // and nobody would see them
		}
	}
	if err == nil && (changed || one.Attributes != "" || one.Refused != "") {
		err = c.add(one)
	}
	in := layers{u.Kind == Directory, l.Kind == Directory, hidden}
	if err != nil || !in.upper && !in.lower {
		return err
	}
	return c.walk(p, in)
}

// capabilities is the attribute with what a program may do besides its user.
const capabilities = "security.capability"

// operation returns the change that turns l into u, if they differ.
func (c *Comparison) operation(p string, u, l *Node) (op Op, changed bool, err error) {
	switch {
	case l.Kind == Absent:
		return Added, true, nil
	case u.Kind != l.Kind, u.Kind == File && u.Size != l.Size, u.Target != l.Target:
		return Modified, true, nil
	case u.Kind == File:
		if equal, err := c.Same(p, &c.used.compared); err != nil || !equal {
			return Modified, true, err
		}
	}
	if changed = u.Mode != l.Mode && u.Kind != Symlink; changed && u.Kind != Directory && l.links > 1 {
		return Modified, true, nil // its other names, also outside of the workspace, keep their mode
	}
	return Mode, changed, nil
}

// add adds a change, with the reason if it cannot be applied.
func (c *Comparison) add(one Change) error {
	one.Refused = cmp.Or(one.Refused, c.refused(&one))
	one.Conflict, one.top = c.conflict(&one), c.top
	return c.append(&one)
}

// changed reports whether the host's file at a path is another one than when the review began, or
// than the review itself has put there. A write or rename changes its change time, which nobody can
// set.
func (c *Comparison) changed(p string, l *Node) bool {
	known := c.Known[p]
	return l.ctime > c.Begun && (known.Kind != l.Kind || known.Ino != l.ino || l.Kind != Directory && known.CTime != l.ctime)
}

// conflict says what the host did to the file that a change replaces. A directory that stays one,
// or goes, is no conflict, because its contents have their own changes, except for its permissions:
// the review copied them before somebody took some away.
func (c *Comparison) conflict(one *Change) string {
	switch old, known := &one.Old, c.Known[one.path]; {
	case one.Op == Mode && old.Mode == one.New.Mode: // only attributes differ, which an apply leaves out
	case old.Kind == Absent && known.Kind != Absent:
		return "it was removed from the workspace after the review began"
	case old.Kind != Absent && (old.Kind != Directory || one.Op == Modified) && c.changed(one.path, old):
		return "it was changed in the workspace after the review began"
	case old.Kind == Directory && old.Mode != one.New.Mode && one.Op == Mode && old.ctime > c.Begun && (known.Ino != old.ino || known.Mode != old.Mode):
		return "its permissions or names were changed in the workspace after the review began"
	}
	return ""
}

func (c *Comparison) refused(one *Change) string {
	if why := c.Denied(path.Join(c.Root, one.path), one.Old.Kind == Directory || one.New.Kind == Directory); why != "" {
		return why
	}
	switch n := &one.New; n.Kind {
	case Socket:
		return "a socket"
	case Device:
		return "a device"
	case File, Directory, Fifo:
		if n.Kind == Fifo && n.links > 1 {
			return "a fifo with several names" // the name that stays in the review would reach the workspace
		}
		more := n.Mode & 0o6000
		if one.Op == Mode { // a write through a mapping leaves them to the new contents
			more &^= one.Old.Mode
		}
		if more != 0 && !(more == 0o2000 && c.inheritsGroup(one)) {
			return "has the set-user-ID or set-group-ID bit"
		}
	}
	return ""
}

// inheritsGroup reports whether a change makes a directory with the set-group-ID bit and group of
// its parent, as mkdir does. A new parent was checked before.
func (c *Comparison) inheritsGroup(one *Change) bool {
	dir := path.Dir(one.path)
	in, err := c.Lower.Look(dir)
	if err == nil && in.Kind != Directory {
		in, err = c.Upper.Look(dir)
	}
	return err == nil && one.New.Kind == Directory && one.Old.Kind != Directory && in.Mode&0o2000 != 0 && in.gid == one.New.gid
}

// under reports whether a path is dir or lies in it.
func under(dir, p string) bool {
	return dir == "." && !path.IsAbs(p) || p == dir || strings.HasPrefix(p, dir+"/")
}

// maxWalked bounds the work to find where symlinks lead, in bytes of the paths at which a look at a
// review asks what commands see; stepCost is that of one with a short path. It asks at each step
// along a symlink, and one symlink can lead through 40 others of 2,000 names each.
const (
	maxWalked = 128 << 20
	stepCost  = 64
)

var errManySteps = errors.New("the symlinks of the review lead through too many directories")

// walked is the used part of maxWalked.
type walked int

func (w *walked) step(p string) error {
	if *w += walked(stepCost + len(p)); *w > maxWalked {
		return errManySteps
	}
	return nil
}

// refusedLink says why a symlink may not be applied; "" if it may. It must not lead out of its tree, whose
// files look describes; nor be able to, once another link stands on its way; nor lead to where rules forbid.
func refusedLink(root, full, target string, look func(full string) (Node, error), rules *Rules) string {
	end, _, err := paths.Follow(path.Dir(full), path.Base(full), func(p string, _ bool) (paths.Step, error) {
		switch {
		case paths.Inside(root, p):
			n, err := look(p)
			return paths.Step{Missing: n.Kind == Absent, Target: n.Target}, err
		case paths.Inside(p, root):
			return paths.Step{}, nil // a directory
		}
		return paths.Step{}, errors.New("outside") // also if it comes back: the review knows nothing there
	}, nil)
	switch {
	case errors.Is(err, errManySteps):
		return err.Error()
	case err != nil || !paths.Inside(root, end):
		return "leads out of the workspace: " + strconv.Quote(target)
	// Clean removes each ".." behind a name, together with the name.
	case strings.Count(target, "..") > strings.Count(path.Clean(target), ".."):
		return `has a ".." behind a name, so another link in that place would lead it elsewhere: ` + strconv.Quote(target)
	}
	return rules.Behind(full, end)
}

// merged describes what commands of the review see at a path.
func (c *Comparison) merged(p string) (Node, error) {
	if err := c.walked.step(p); err != nil {
		return Node{}, err
	}
	n, err := c.merge(path.Join(".", p))
	return n.Node, err
}

// maxMerged bounds the paths that merge remembers: paths that are asked for one after another are
// near each other.
const maxMerged = 10_000

// merge looks at a path and, if they are not known yet, at the directories above it.
func (c *Comparison) merge(p string) (n mergedNode, err error) {
	if p == "." {
		return mergedNode{Node: Node{Kind: Directory}}, nil
	}
	if n, known := c.merges[p]; known {
		return n, nil
	}
	in, err := c.merge(path.Dir(p))
	if err != nil || in.Kind != Directory {
		return n, err
	}
	n.Node, err = c.Upper.Look(p)
	switch n.hides = in.hides || n.opaque; {
	case err != nil:
	case n.Kind == Whiteout:
		n.Node = Node{}
	case n.Kind == Absent && !in.hides:
		n.Node, err = c.Lower.Look(p)
	}
	if err != nil {
		return n, err
	}
	if c.merges == nil || len(c.merges) == maxMerged {
		c.merges = map[string]mergedNode{}
	}
	c.merges[p] = n
	return n, nil
}
