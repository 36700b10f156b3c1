package review

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Shown is a change in JSON.
type Shown struct {
	Path     string `json:"path"`                  // relative to the workspace, or absolute
	Quoted   string `json:"path_quoted,omitempty"` // a path that is not text, quoted as in Go
	Op       string `json:"op"`                    // "added", "modified", "deleted" or "mode"
	Old      *side  `json:"old"`                   // null if the workspace has nothing
	New      *side  `json:"new"`                   // null if the review has nothing
	Refused  string `json:"refused"`               // why it cannot be applied; may be empty
	Conflict string `json:"conflict"`              // what happened to it in the workspace since; may be empty
	// Attributes are extended attributes and access control lists that the workspace lacks; may be
	// empty.
	Attributes string `json:"attributes"`
	Uncompared bool   `json:"uncompared,omitempty"` // the contents may be equal
	Note       string `json:"note"`                 // what a person should know; may be empty
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
	s := Shown{Path: path, Op: c.Op.String(), Old: sideOf(&c.Old), New: sideOf(&c.New), Refused: c.Refused, Conflict: c.Conflict, Attributes: c.Attributes, Uncompared: c.Uncompared, Note: c.Note}
	if !utf8.ValidString(path) {
		s.Quoted = strconv.QuoteToASCII(path)
	}
	return s
}

// As returns some changes of the set: those at, or in, the paths of only, if that is not empty.
func (s *Set) As(changes []Change, only []string) []Shown {
	list := []Shown{}
	for i := range changes {
		if c := &changes[i]; s.Concerns(only, c) {
			list = append(list, c.as(s.Shown(c)))
		}
	}
	return list
}

// MarshalJSON returns the set in the form of review show -json.
func (s *Set) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Digest  string  `json:"digest"`
		Changes []Shown `json:"changes"`
	}{s.Digest, s.As(s.Changes, nil)})
}

// MarshalJSON returns one change in the same form, with the path in its tree.
func (c Change) MarshalJSON() ([]byte, error) { return json.Marshal(c.as(c.Path)) }
