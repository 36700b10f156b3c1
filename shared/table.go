package shared

import (
	"fmt"

	"github.com/sbxhost/sbxhost/paths"
)

// An Entry says what a command sees at one path inside, and beneath it as far as
// no other entry lies deeper.
//
// A read-only or hidden entry inside a writable one is protected as well: an
// engine keeps the directories between the two from being renamed and removed. A
// command could otherwise move the directory away and make another in its place,
// for the next command, or the host, to take for the first.
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
	switch a {
	case Hidden:
		return "hidden"
	case ReadOnly:
		return "read-only"
	case ReadWrite:
		return "read-write"
	case Overlay:
		return "overlay"
	case Private:
		return "private"
	}
	return fmt.Sprintf("access(%d)", int32(a))
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
func (m Missing) String() string {
	switch m {
	case MissingRefuse:
		return "refuse"
	case MissingIgnore:
		return "ignore"
	case MissingHold:
		return "hold"
	}
	return fmt.Sprintf("missing(%d)", int32(m))
}

// Cover finds the entry of a table that a path inside lies in, the deepest one,
// and the host's path of what shows there; "" where that is nothing of the host's.
// It is nil where no entry has the path.
func Cover(table []Entry, path string) (entry *Entry, host string) {
	for i := range table {
		if e := &table[i]; paths.Inside(e.Path, path) && (entry == nil || len(e.Path) > len(entry.Path)) {
			entry = e
		}
	}
	if entry == nil || !entry.Access.Shows() {
		return entry, ""
	}
	return entry, paths.Move(path, entry.Path, entry.Source)
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
