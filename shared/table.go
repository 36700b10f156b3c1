package shared

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// An Entry says what a command sees at a path inside and beneath it, up to deeper entries.
//
// A hidden entry hides all beneath it, except for deeper entries. An engine prevents renames and
// removals of directories between a writable entry and the entries in it: see [Pins]. The path of a
// hidden entry may be a symlink inside: the engine hides what it leads to.
type Entry struct {
	Path       string  `json:"path"`                 // inside: absolute, in its shortest form
	Source     string  `json:"source,omitempty"`     // on the host, symlinks resolved; empty for Hidden and Private
	Access     Access  `json:"access"`               // the zero value hides
	Missing    Missing `json:"missing"`              // what to do if Source does not exist, or there is nothing to hide at Path
	Degradable bool    `json:"degradable,omitempty"` // an Overlay may become ReadOnly, which an Event reports
	// Why is the reason, for people and for programs. It begins with the attribute that asks for the
	// entry, such as "workspace", "bind_paths[1]" or `deny_paths "**/.env"`, or else with one of the
	// origins in package internal/view, such as "protected: " or "git: ". Hints, explain and the
	// errors of engines read this beginning; people read all of it.
	Why string `json:"why"`
}

// Access is what a command can do with an entry.
type Access int32

const (
	Hidden    Access = iota // neither readable nor writable; looks empty
	ReadOnly                // the host's files, not writable
	ReadWrite               // the host's files, writable
	Overlay                 // writable; the session keeps the writes
	Private                 // empty memory, until the end of the command
)

// String returns text for people.
func (a Access) String() string {
	return spell("access", a, "hidden", "read-only", "read-write", "overlay", "private")
}

// MarshalText is String.
func (a Access) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// Shows reports whether the entry shows files of the host.
func (a Access) Shows() bool { return a == ReadOnly || a == ReadWrite || a == Overlay }

// Missing is what happens to an entry whose file does not exist.
type Missing int32

const (
	MissingRefuse Missing = iota // nothing runs
	MissingIgnore                // the entry is left out
	// MissingHold says that the host keeps a stub at the path while commands run, so that no
	// command can create the path. An engine treats it as MissingRefuse.
	MissingHold
)

// String returns text for people.
func (m Missing) String() string { return spell("missing", m, "refuse", "ignore", "hold") }

// MarshalText is String.
func (m Missing) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// Cover finds the deepest entry of a table that covers a path inside, and the host's path that
// shows there; "" if none does. The entry is nil if none covers the path.
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

// Covers is [Cover] for many paths of one table: the cost of a lookup does not depend on the
// table's length.
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

// Pins returns the directories between a writable entry and the entries in it, sorted. If a command
// could rename or remove one and put another in its place, the next command's table, which names
// paths, would hide and protect something else. An engine that mounts binds each pin onto itself,
// so that the kernel prevents both. The engine omits pins whose Source is not a directory.
//
// A pin has the access of the entry around it, and the reason of the entry that it protects.
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

// spell returns the word for a value.
func spell[T ~int32](kind string, value T, words ...string) string {
	if value < 0 || int(value) >= len(words) {
		return fmt.Sprintf("%s(%d)", kind, int32(value))
	}
	return words[value]
}

// checkPath accepts absolute, clean, slash-separated paths without NUL: other spellings of a path
// would defeat comparisons.
func checkPath(field, p string) error {
	switch {
	case !strings.HasPrefix(p, "/"):
		return invalid(field, "%q is not absolute", p)
	case strings.IndexByte(p, 0) >= 0:
		return invalid(field, "%q contains a NUL byte", p)
	case path.Clean(p) != p:
		return invalid(field, "%q is not in its shortest form", p)
	}
	return nil
}
