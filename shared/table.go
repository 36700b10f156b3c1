package shared

import (
	"fmt"
	"path"
	"slices"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// An Entry says what a command sees at one path inside, and beneath it as far as
// no other entry lies deeper.
//
// A hidden entry hides all that lies beneath it but for what deeper entries show.
// An engine keeps the directories between a writable entry and those in it from
// being renamed and removed: see [Pins].
type Entry struct {
	Path       string  // inside: absolute, in its shortest form
	Source     string  // on the host, symlinks resolved; empty for Hidden and Private
	Access     Access  // the zero value hides
	Missing    Missing // what happens while there is nothing at Source, or to hide at Path
	Degradable bool    // an Overlay may become ReadOnly, reported by an Event
	Why        string  // what asked for it, for people: "workspace", "bind_paths[1]", `deny_paths "**/.env"`
}

// Access is what a command can do with an entry.
type Access int32

const (
	Hidden    Access = iota // neither read nor written; looks empty
	ReadOnly                // the host's files, not writable
	ReadWrite               // the host's files, writable
	Overlay                 // writable, the writes kept in the session
	Private                 // empty memory, gone with the command
)

// String is for people.
func (a Access) String() string {
	return spell("access", a, "hidden", "read-only", "read-write", "overlay", "private")
}

// Shows reports whether the entry shows files of the host.
func (a Access) Shows() bool { return a == ReadOnly || a == ReadWrite || a == Overlay }

// Missing is what happens to an entry while what it is about does not exist.
type Missing int32

const (
	MissingRefuse Missing = iota // nothing runs
	MissingIgnore                // the entry is left out
	// MissingHold says that the host keeps something at the place while commands
	// run, so that none can create what must not be there. For an engine it is
	// there; where it is not, MissingRefuse holds.
	MissingHold
)

// String is for people.
func (m Missing) String() string { return spell("missing", m, "refuse", "ignore", "hold") }

// Cover finds the entry of a table that a path inside lies in, the deepest one,
// and the host's path of what shows there; "" where that is nothing of the host's.
// It is nil where no entry has the path.
func Cover(table []Entry, path string) (entry *Entry, host string) {
	for i := range table {
		if e := &table[i]; paths.Inside(e.Path, path) && (entry == nil || len(e.Path) >= len(entry.Path)) {
			entry = e
		}
	}
	if entry != nil && entry.Access.Shows() {
		host = paths.Move(path, entry.Path, entry.Source)
	}
	return entry, host
}

// Covers is [Cover] for many paths of one table: a lookup costs the same however
// long the table is.
func Covers(table []Entry) func(path string) (entry *Entry, host string) {
	at := make(map[string]*Entry, len(table))
	for i := range table {
		at[table[i].Path] = &table[i]
	}
	return func(path string) (entry *Entry, host string) {
		for dir := range paths.Up(path) {
			if e := at[dir]; e != nil {
				if e.Access.Shows() {
					host = paths.Move(path, e.Path, e.Source)
				}
				return e, host
			}
		}
		return nil, ""
	}
}

// Pins gives the directories between a writable entry and the entries in it,
// sorted. A command that renamed or removed one could put another in its place, and
// the next command's table, which goes by paths, would hide and protect something
// else. An engine that mounts binds each onto itself, which the kernel keeps from
// both. Those whose Source is not a directory it leaves out: nothing lies there.
//
// A pin has the access of the entry that it lies in, and the reason of the one it
// keeps.
func Pins(table []Entry) []Entry {
	var pins []Entry
	cover, pinned := Covers(table), map[string]bool{}
	for _, e := range table {
		dir := path.Dir(e.Path)
		in, source := cover(dir)
		if in == nil || in.Access != ReadWrite && in.Access != Overlay {
			continue
		}
		for dir != in.Path && !pinned[dir] {
			pinned[dir] = true
			pins = append(pins, Entry{Path: dir, Source: source, Access: in.Access, Why: e.Why})
			dir, source = path.Dir(dir), path.Dir(source)
		}
	}
	slices.SortFunc(pins, func(a, b Entry) int { return paths.Compare(a.Path, b.Path) })
	return pins
}

func validTable(table []Entry) error {
	seen := make(map[string]int, len(table))
	for i, e := range table {
		field := fmt.Sprintf("table[%d]", i)
		if e.Access < Hidden || e.Access > Private {
			return invalid(field, "unknown access %d", int32(e.Access))
		}
		if e.Missing < MissingRefuse || e.Missing > MissingHold {
			return invalid(field, "unknown value %d for what is missing", int32(e.Missing))
		}
		if err := checkPath(field+": path", e.Path); err != nil {
			return err
		}
		if e.Access.Shows() {
			if err := checkPath(field+": source", e.Source); err != nil {
				return err
			}
		} else if e.Source != "" {
			return invalid(field, "what is %s has no source, got %q", e.Access, e.Source)
		}
		if j, dup := seen[e.Path]; dup {
			return invalid(field, "path %q is that of table[%d] too", e.Path, j)
		}
		seen[e.Path] = i
	}
	return nil
}
