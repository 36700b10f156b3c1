package approvals

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"time"
)

// TrustedFile is a configuration that its user has read.
type TrustedFile struct {
	Path    string    `json:"path"`    // with its directory resolved
	SHA256  string    `json:"sha256"`  // of the text
	Content string    `json:"content"` // the text that the user read
	At      time.Time `json:"at"`
}

func (t *TrustedFile) texts() []*string { return []*string{&t.Path, &t.Content} }

func (t *TrustedFile) check() error {
	if t.SHA256 != sha256Of(t.Content) {
		return errors.New("content and sha256 differ")
	}
	return nil
}

func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (s *Store) trusted() listFile[TrustedFile, *TrustedFile] {
	return listFile[TrustedFile, *TrustedFile]{document{s.dir, TrustFileName}, "trusted"}
}

// Trusts reports whether exactly this text at a path is trusted. It also returns the record of that
// path, nil if there is none: with another text, the file has changed.
func (s *Store) Trusts(path string, content []byte) (bool, *TrustedFile, error) {
	list, err := s.TrustList()
	i := slices.IndexFunc(list, func(t TrustedFile) bool { return t.Path == path })
	if err != nil || i < 0 {
		return false, nil, err
	}
	return list[i].Content == string(content), &list[i], nil
}

// AddTrust records that a text at a path is trusted. It replaces an earlier record.
func (s *Store) AddTrust(ctx context.Context, path string, content []byte) error {
	return s.trusted().change(ctx, func(list []TrustedFile) []TrustedFile {
		list = slices.DeleteFunc(list, func(t TrustedFile) bool { return t.Path == path })
		return append(list, TrustedFile{path, sha256Of(string(content)), string(content), time.Now().UTC().Truncate(time.Second)})
	})
}

// RevokeTrust removes a path's record, and reports whether there was one.
func (s *Store) RevokeTrust(ctx context.Context, path string) (bool, error) {
	found := false
	err := s.trusted().change(ctx, func(list []TrustedFile) []TrustedFile {
		n := len(list)
		list = slices.DeleteFunc(list, func(t TrustedFile) bool { return t.Path == path })
		found = len(list) < n
		return list
	})
	return found, err
}

// TrustList returns all records, in the order of their creation.
func (s *Store) TrustList() ([]TrustedFile, error) { return s.trusted().list() }
