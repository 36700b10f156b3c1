package approvals

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// Trusted is a configuration that its user has read.
type Trusted struct {
	Path    string // with its directory resolved
	Content []byte // as it was read
	At      time.Time
}

// Trust says what is known of a configuration. The zero value is nothing.
type Trust int

const (
	TrustUnknown   Trust = iota
	TrustChanged         // another text at that path was trusted
	TrustConfirmed       // exactly this text
)

func (s *Store) trustDocument() document { return document{s.dir, TrustFileName} }

// Trusts tells whether a text at a path is trusted, and gives the record of
// that path, which is nil where there is none.
func (s *Store) Trusts(path string, content []byte) (Trust, *Trusted, error) {
	list, err := s.TrustList()
	if err != nil {
		return TrustUnknown, nil, err
	}
	for i := range list {
		if t := &list[i]; t.Path == path {
			if string(t.Content) == string(content) {
				return TrustConfirmed, t, nil
			}
			return TrustChanged, t, nil
		}
	}
	return TrustUnknown, nil, nil
}

// AddTrust records that a text at a path is trusted, in place of what was.
func (s *Store) AddTrust(ctx context.Context, path string, content []byte) error {
	return s.changeTrust(ctx, func(list []Trusted) ([]Trusted, error) {
		list = slices.DeleteFunc(list, func(t Trusted) bool { return t.Path == path })
		return append(list, Trusted{path, content, time.Now().UTC().Truncate(time.Second)}), nil
	})
}

// RevokeTrust forgets a path, and reports whether there was a record of it.
func (s *Store) RevokeTrust(ctx context.Context, path string) (bool, error) {
	found := false
	err := s.changeTrust(ctx, func(list []Trusted) ([]Trusted, error) {
		n := len(list)
		list = slices.DeleteFunc(list, func(t Trusted) bool { return t.Path == path })
		if found = len(list) < n; !found {
			return nil, errUnchanged
		}
		return list, nil
	})
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	return found, err
}

// TrustList gives all records, in the order in which they were made.
func (s *Store) TrustList() ([]Trusted, error) {
	text, err := s.trustDocument().read()
	if err != nil || text == nil {
		return nil, err
	}
	return s.decodeTrust(text)
}

func (s *Store) changeTrust(ctx context.Context, change func([]Trusted) ([]Trusted, error)) error {
	return s.trustDocument().update(ctx, func(old []byte) ([]byte, error) {
		var list []Trusted
		if old != nil {
			var err error
			if list, err = s.decodeTrust(old); err != nil {
				return nil, err
			}
		}
		list, err := change(list)
		if err != nil {
			return nil, err
		}
		return encodeTrust(list)
	})
}

type trustFormat struct {
	Version int          `json:"version"`
	Trusted []trustEntry `json:"trusted"`
}

type trustEntry struct {
	Path    string    `json:"path"`
	SHA256  string    `json:"sha256"`
	Content string    `json:"content"`
	At      time.Time `json:"at"`
}

// SHA256 identifies a trusted text.
func (t *Trusted) SHA256() string {
	sum := sha256.Sum256(t.Content)
	return hex.EncodeToString(sum[:])
}

func encodeTrust(list []Trusted) ([]byte, error) {
	out := trustFormat{Version: Version, Trusted: make([]trustEntry, len(list))}
	for i, t := range list {
		out.Trusted[i] = trustEntry{encodeText(t.Path), t.SHA256(), encodeText(string(t.Content)), t.At}
	}
	text, err := json.MarshalIndent(out, "", "  ")
	return append(text, '\n'), err
}

func (s *Store) decodeTrust(text []byte) ([]Trusted, error) {
	var in trustFormat
	d := s.trustDocument()
	if err := d.strict(text, &in.Version, &in); err != nil {
		return nil, err
	}
	list := make([]Trusted, len(in.Trusted))
	for i, e := range in.Trusted {
		path, err := decodeText(e.Path)
		content, contentErr := decodeText(e.Content)
		if err := errors.Join(err, contentErr); err != nil {
			return nil, d.tampered("makes no sense (trusted[%d]: %v)", i, err)
		}
		list[i] = Trusted{path, []byte(content), e.At}
		if list[i].SHA256() != e.SHA256 {
			return nil, d.tampered("makes no sense (trusted[%d]: content and sha256 differ)", i)
		}
	}
	return list, nil
}
