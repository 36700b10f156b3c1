package review

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Shown is a change as JSON has it.
type Shown struct {
	Path     string `json:"path"`                  // relative to the workspace, or absolute
	Quoted   string `json:"path_quoted,omitempty"` // of a path that is no text, as Go writes it
	Op       string `json:"op"`                    // "added", "modified", "deleted" or "mode"
	Old      *side  `json:"old"`                   // null where the workspace has nothing
	New      *side  `json:"new"`                   // null where the review has nothing
	Refused  string `json:"refused"`               // why it cannot be applied; else empty
	Conflict string `json:"conflict"`              // what happened to it in the workspace since; else empty
	// Attributes are the extended attributes and access control lists that the workspace has not; else empty.
	Attributes string `json:"attributes"`
	Note       string `json:"note"` // what a person should know of it; else empty
}

type side struct {
	Type   string `json:"type"`
	Mode   string `json:"mode"`
	Size   int64  `json:"size"`
	Target string `json:"target,omitempty"`
}

func sideOf(n *Node) *side {
	if n.Kind == Absent {
		return nil
	}
	return &side{n.Kind.String(), fmt.Sprintf("%04o", n.Mode), n.Size, n.Target}
}

func (c *Change) as(path string) Shown {
	s := Shown{Path: path, Op: c.Op.String(), Old: sideOf(&c.Old), New: sideOf(&c.New), Refused: c.Refused, Conflict: c.Conflict, Attributes: c.Attributes, Note: c.Note}
	if !utf8.ValidString(path) {
		s.Quoted = strconv.QuoteToASCII(path)
	}
	return s
}

// As gives those of some changes of the set that lie in what only lists, if it lists anything.
func (s *Set) As(changes []Change, only []string) []Shown {
	list := []Shown{}
	for i := range changes {
		if c := &changes[i]; s.Concerns(only, c) {
			list = append(list, c.as(s.Shown(c)))
		}
	}
	return list
}

// MarshalJSON gives the set as the command's review show does with -json.
func (s *Set) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Digest  string  `json:"digest"`
		Changes []Shown `json:"changes"`
	}{s.Digest, s.As(s.Changes, nil)})
}

// MarshalJSON gives one change in the same form, by its path in its tree.
func (c Change) MarshalJSON() ([]byte, error) { return json.Marshal(c.as(c.Path)) }
