package review

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// MarshalText returns the text of String.
func (o Op) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// MarshalJSON returns null for nothing.
func (n Node) MarshalJSON() ([]byte, error) {
	if n.Kind == Absent {
		return []byte("null"), nil
	}
	return json.Marshal(struct {
		Type   string `json:"type"`
		Mode   string `json:"mode"`
		UID    uint32 `json:"uid"`
		GID    uint32 `json:"gid"`
		Size   int64  `json:"size"`
		Target string `json:"target,omitempty"`
	}{n.Kind.String(), fmt.Sprintf("%04o", n.Mode), n.uid, n.gid, n.Size, n.Target})
}

// MarshalJSON adds a path that is not text, quoted as in Go.
func (c Change) MarshalJSON() ([]byte, error) {
	type fields Change
	all := struct {
		fields
		Quoted string `json:"path_quoted,omitempty"`
	}{fields: fields(c)}
	if !utf8.ValidString(c.Shown) {
		all.Quoted = strconv.QuoteToASCII(c.Shown)
	}
	return json.Marshal(all)
}
