package review

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Side is one of the places of a path.
type Side uint8

const (
	Upper Side = iota // in a review's layer
	Host              // in the workspace
	Slot              // among files that an apply has put aside
)

// A Place is a path on one side.
type Place struct {
	Side  Side `json:"s"`
	Layer int  `json:"l,omitempty"`
	Path  name `json:"p"`
}

func (at Place) dir() Place {
	at.Path = name(path.Dir(string(at.Path)))
	return at
}

// name is a path that JSON can hold, whatever bytes it has.
type name string

func (n name) MarshalText() ([]byte, error) { return []byte(strconv.QuoteToASCII(string(n))), nil }

func (n *name) UnmarshalText(text []byte) error {
	s, err := strconv.Unquote(string(text))
	*n = name(s)
	return err
}

// appliedPath is a path that an apply has written to the workspace, or removed.
type appliedPath struct {
	Layer int    `json:"l,omitempty"`
	Path  name   `json:"p"`
	Kind  Kind   `json:"k"`           // Absent: removed
	CTime int64  `json:"c,omitempty"` // after the apply
	Ino   uint64 `json:"i,omitempty"`
	Mode  uint32 `json:"m,omitempty"`
	New   bool   `json:"n,omitempty"` // a new directory
	// Object is that of a Step.
	Object bool `json:"o,omitempty"`
	// Index is the text of an index of git; after git status wrote it again, its text is the same.
	Index []byte `json:"x,omitempty"`
}

// A Step is one system call that changes a layer or the workspace. The inodes at its two paths show
// whether it was done, so that it can be undone after any interruption.
type Step struct {
	// "move": From to To, which is free; "swap": From, a slot, with To; "mode"; "stay": nothing is done
	// to To, which can be another name of what other steps move: that changes its change time.
	Do   string `json:"do"`
	From Place  `json:"f"`
	To   Place  `json:"t"`
	Ino  uint64 `json:"i"`           // the inode at From before
	Was  uint32 `json:"w,omitempty"` // of "mode": the old mode of To
	Mode uint32 `json:"m,omitempty"`
	// Clean says that the file of the workspace that the step replaces, moves or leaves is no conflict,
	// also after an undo.
	Clean bool `json:"c,omitempty"`
	// Old and Time are the inode and the modification time of that file.
	Old  uint64 `json:"o,omitempty"`
	Time int64  `json:"d,omitempty"`
	// Sum is the [tree.sum] of what the step puts into the workspace: what somebody has edited there
	// is not taken back.
	Sum uint64 `json:"n,omitempty"`
	// Object says that the step adds git's objects to a repository that was there before. Once all is
	// applied, they stay: new refs of the host may need them.
	Object bool `json:"g,omitempty"`

	// The file that must be at To before a swap, or at From before a move from the workspace.
	old    Node
	oldSum uint64 // the exact [tree.sum] of a directory that is moved from the workspace
}

// ErrPart is wrapped by the error for a part of a change that cannot be applied alone.
var ErrPart = errors.New("cannot be applied in part")

// A fill makes in a slot a copy of a change's new file, or a directory like its new one, which its
// owner can write to, and returns the inode.
type fill func(slot string, c *Change) (ino uint64, err error)

// NewPlan plans the chosen changes. privileged is for a user that needs no permission to write to a
// directory. lookup describes a directory on a side; it is called for those above changes. fill is
// called before any step.
func NewPlan(changes []Change, chosen []bool, privileged bool, lookup func(Place) (Node, error), fill fill) ([]Step, error) {
	p := &planner{changes: changes, chosen: chosen, privileged: privileged, lookup: lookup, fill: fill, links: map[[2]uint64]uint64{}, opened: map[Place]bool{}}
	for i, c := range changes {
		if chosen[i] && c.moves() {
			p.links[[2]uint64{c.New.dev, c.New.ino}]++
		}
	}
	for i := 0; i < len(changes); {
		var err error
		if i, err = p.change(i); err != nil {
			return nil, err
		}
	}
	slices.Reverse(p.steps[closing]) // a directory's contents before it
	return slices.Concat(p.steps[:]...), nil
}

type planner struct {
	changes    []Change
	chosen     []bool
	privileged bool
	lookup     func(Place) (Node, error)
	fill       fill
	links      map[[2]uint64]uint64 // how many names of an upper file are chosen and move
	opened     map[Place]bool       // directories that can be written to, or that the plan makes

	steps [phases][]Step
	slots int
}

// The phases of a plan. A reader of a repository finds objects before their names.
const (
	opening = iota // give write permission
	making         // new directories
	gitObjects
	files
	gitFiles
	gitHeads
	gitIndexes
	closing // take the permission back
	modes   // new permissions of directories
	phases
)

func (p *planner) slot() Place {
	p.slots++
	return Place{Slot, 0, name(strconv.Itoa(p.slots - 1))}
}

func (c *Change) host() Place  { return Place{Host, c.layer, name(c.path)} }
func (c *Change) upper() Place { return Place{Upper, c.layer, name(c.path)} }

// movable reports whether a new directory can be moved as a whole, with the changes in it. Each name of a
// file with several has its own step, see [Review.separate].
func (p *planner) movable(i, end int) bool {
	for _, c := range p.changes[i:end] {
		if c.object || c.whiteouts || c.New.Kind == File && c.New.links > 1 || c.New.Kind == Directory && !p.privileged && c.New.Mode&0o700 != 0o700 {
			return false
		}
	}
	return true
}

// moves reports whether the file of a name may go to the workspace itself. A change of Mode leaves it
// behind, and an object of git's is needed by the review after an undo. What git writes to a file of its own
// would also be in the file of another name, as behind a symlink.
func (c *Change) moves() bool {
	return c.New.Kind == File && c.Op != Mode && !c.object && (c.git == "" || objects(c.git))
}

// copied reports whether the workspace gets a copy of a file. One with several names goes there itself only
// if all of them move: one that stays behind would let commands of the review write to the workspace.
func (p *planner) copied(c *Change) bool {
	n := &c.New
	return n.Kind == File && (c.object || n.links > 1 && !(c.moves() && p.links[[2]uint64{n.dev, n.ino}] == n.links))
}

// change plans one change, with its contents if they go along. It returns the next change to plan.
func (p *planner) change(i int) (int, error) {
	c := &p.changes[i]
	end := endOf(p.changes, i)
	all := !slices.Contains(p.chosen[i+1:end], false)
	if !p.chosen[i] {
		if c.Old.Kind == File && c.Old.links > 1 {
			p.add(files, withOld(Step{Do: "stay", To: c.host()}, p.changes[i:i+1]))
		}
		return i + 1, nil
	}
	if err := p.access(c.host()); err != nil {
		return 0, err
	}
	setAside := func(phase int, changes []Change) {
		p.add(phase, withOld(Step{Do: "move", From: c.host(), To: p.slot(), Ino: c.Old.ino}, changes))
	}
	switch {
	case c.Op == Mode:
		phase := c.phase()
		if c.New.Kind == Directory {
			phase = modes // they could forbid its other changes
		}
		p.add(phase, withOld(Step{Do: "mode", To: c.host(), Ino: c.Old.ino, Was: c.Old.Mode, Mode: c.New.Mode}, []Change{*c}))
		return i + 1, nil
	case c.Op == Deleted && !all:
		return i + 1, nil // it stays, with the rest of its contents
	case c.Op == Deleted:
		p.takesAway(c)
		setAside(c.phase(), p.changes[i:end])
		return end, nil
	case c.Op == Modified && c.Old.Kind == Directory && !all:
		return 0, fmt.Errorf("%q: the directory becomes a %s: %w; choose all that was in it, or leave it out", c.path, c.New.Kind, ErrPart)
	case c.Op == Modified && c.Old.Kind == Directory, c.New.Kind == Directory && all && p.movable(i, end):
		return end, p.put(p.changes[i:end])
	case c.New.Kind == Directory:
		if c.Op == Modified {
			setAside(making, p.changes[i:i+1])
		}
		return i + 1, p.makeDirectory(c)
	}
	return i + 1, p.put(p.changes[i : i+1])
}

// withOld adds to a step the old state of the file of the workspace that it changes, or takes away
// with its contents; the changes have that state.
func withOld(s Step, changes []Change) Step {
	c := &changes[0]
	s.Clean, s.Old, s.Time, s.old = c.Conflict == "", c.Old.ino, c.Old.mtime, c.Old
	s.oldSum = sumOf(changes, func(c *Change) *Node { return &c.Old }, true)
	return s
}

// sumOf is the [tree.sum] of one side of a change, with its contents.
func sumOf(changes []Change, side func(*Change) *Node, exact bool) (sum uint64) {
	for i := range changes {
		if n := side(&changes[i]); n.Kind != Absent {
			sum += n.sum(path.Join(".", strings.TrimPrefix(changes[i].path, changes[0].path)), exact)
		}
	}
	return sum
}

// takesAway plans the permission to move a directory of the workspace: its ".." changes.
func (p *planner) takesAway(c *Change) {
	if c.Old.Kind == Directory && !p.privileged && c.Old.Mode&0o200 == 0 {
		p.add(opening, Step{Do: "mode", To: c.host(), Ino: c.Old.ino, Was: c.Old.Mode, Mode: c.Old.Mode | 0o700})
	}
}

// makeDirectory plans a new directory that cannot be moved as a whole.
func (p *planner) makeDirectory(c *Change) error {
	p.opened[c.host()] = true
	slot := p.slot()
	ino, err := p.fill(string(slot.Path), c)
	p.add(making, Step{Do: "move", From: slot, To: c.host(), Ino: ino, Sum: c.New.sum(".", false), Object: c.object})
	if mode := c.New.Mode | 0o700; c.New.Mode != mode {
		p.add(closing, Step{Do: "mode", To: c.host(), Ino: ino, Was: mode, Mode: c.New.Mode, Object: c.object})
	}
	return err
}

// put plans to put a file of the upper layer into the workspace, or a directory with the changes in
// it. If something is there, it goes into a slot, and the two change places.
func (p *planner) put(changes []Change) error {
	c, sum := &changes[0], sumOf(changes, func(c *Change) *Node { return &c.New }, false)
	from, ino, copied, err := c.upper(), c.New.ino, p.copied(c), error(nil)
	if copied {
		from = p.slot()
		ino, err = p.fill(string(from.Path), c)
	} else {
		err = p.access(from)
	}
	if err != nil {
		return err
	}
	if c.Old.Kind == Absent {
		p.add(c.phase(), Step{Do: "move", From: from, To: c.host(), Ino: ino, Sum: sum, Object: c.object})
		return nil
	}
	p.takesAway(c)
	slot := from
	if !copied {
		slot = p.slot()
		p.add(c.phase(), Step{Do: "move", From: from, To: slot, Ino: ino})
	}
	p.add(c.phase(), withOld(Step{Do: "swap", From: slot, To: c.host(), Ino: ino, Sum: sum}, changes))
	return nil
}

func (p *planner) add(phase int, s Step) { p.steps[phase] = append(p.steps[phase], s) }

// phase is that of a change to a file, by its path in a git directory.
func (c *Change) phase() int {
	switch base := path.Base(c.git); {
	case c.git == "":
		return files
	case objects(c.git):
		return gitObjects
	case base == "index":
		return gitIndexes
	case base == "HEAD" && !strings.Contains(c.git, "logs/"):
		return gitHeads
	}
	return gitFiles
}

// access plans write permission for the directory of a place.
func (p *planner) access(at Place) error {
	dir := at.dir()
	if p.opened[dir] || p.privileged {
		return nil
	}
	n, err := p.lookup(dir)
	if err != nil {
		return err
	}
	p.opened[dir] = true
	if n.Kind == Directory && n.Mode&0o300 != 0o300 {
		more := n.Mode | 0o700
		p.add(opening, Step{Do: "mode", To: dir, Ino: n.ino, Was: n.Mode, Mode: more})
		p.add(closing, Step{Do: "mode", To: dir, Ino: n.ino, Was: more, Mode: n.Mode})
	}
	return nil
}
