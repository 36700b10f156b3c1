package approvals

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Version is that of the files' format.
const Version = 2

// FileName and TrustFileName are the files in a store's directory.
const (
	FileName      = "approvals.json"
	TrustFileName = "trust.json"
)

// DefaultTTL is how long approvals of the scopes once and session live.
const DefaultTTL = 6 * time.Hour

// Dir is the directory of the user's store, $XDG_STATE_HOME/sbxhost or
// ~/.local/state/sbxhost; empty where neither variable says where.
func Dir(getenv func(string) string) string {
	// The XDG specification has relative values ignored.
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "sbxhost")
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "sbxhost")
	}
	return ""
}

// Scope says how far an approval reaches. The zero value is none.
type Scope string

const (
	Once    Scope = "once"    // the first command that needs it
	Session Scope = "session" // one session, for a time
	Always  Scope = "always"  // until it is revoked
)

// ParseScope reads a scope's name.
func ParseScope(s string) (Scope, error) {
	switch scope := Scope(s); scope {
	case Once, Session, Always:
		return scope, nil
	}
	return "", fmt.Errorf(`%q is none of "once", "session" and "always"`, s)
}

// Approval is one entry of a store.
type Approval struct {
	Key
	ID      string // names it for Revoke
	Scope   Scope
	Session string    // which one, for the scope session
	At      time.Time // by the wall clock, for people
	Reason  string    // why the command was not sandboxed then
	// Boot and Until end the scopes once and session.
	Boot  string
	Until time.Duration
}

// Expired reports whether the approval's time is over at a moment.
func (a *Approval) Expired(now Moment) bool {
	return a.Scope != Always && (a.Boot != now.Boot || now.Elapsed >= a.Until)
}

// Store is a directory of files. Its methods may be called from any number of
// goroutines and processes. It touches nothing before it is asked.
type Store struct {
	dir string
	now func() (Moment, error)
}

// Open gives the store of a directory, which is made when it is first written.
func Open(dir string) *Store { return &Store{dir: dir, now: Now} }

// Dir is the store's directory.
func (s *Store) Dir() string { return s.dir }

func (s *Store) document() document { return document{s.dir, FileName} }

// Find gives the approval for a command in a session; nil where there is none.
// One of the scope once is used up by that. The error may be a TamperedError
// and then is something to tell; there is no approval.
func (s *Store) Find(ctx context.Context, key Key, session string) (*Approval, error) {
	found, err := s.Peek(key, session)
	if err != nil || found == nil || found.Scope != Once {
		return found, err
	}
	// Another process may be using it up at this moment.
	err = s.change(ctx, func(list []Approval, _ Moment) ([]Approval, error) {
		i := slices.IndexFunc(list, func(a Approval) bool { return a.ID == found.ID && !a.expiredOr(s) })
		if i < 0 {
			found = nil
			return nil, errUnchanged
		}
		return slices.Delete(list, i, i+1), nil
	})
	if err != nil {
		return nil, fmt.Errorf("an approval cannot be used up: %w", err)
	}
	return found, nil
}

func (a *Approval) expiredOr(s *Store) bool {
	now, err := s.now()
	return err != nil || a.Expired(now)
}

// Peek is Find, using nothing up.
func (s *Store) Peek(key Key, session string) (*Approval, error) {
	text, err := s.document().read()
	if err != nil || text == nil {
		return nil, err
	}
	list, err := s.decode(text)
	if err != nil {
		return nil, err
	}
	want := key.Digest()
	var best *Approval
	for i := range list {
		a := &list[i]
		if a.Key.Digest() != want || a.Scope == Session && (a.Session != session || session == "") {
			continue
		}
		if a.Scope != Always && a.expiredOr(s) {
			continue
		}
		// The scope once is kept where a wider one serves.
		if best == nil || rank(a.Scope) > rank(best.Scope) {
			best = a
		}
	}
	return best, nil
}

func rank(s Scope) int { return slices.Index([]Scope{Once, Session, Always}, s) }

// Add stores an approval: of key, with a scope, for a session where that is
// the scope, for a time that only the scope always does not need.
func (s *Store) Add(ctx context.Context, key Key, scope Scope, session string, ttl time.Duration, reason string) (*Approval, error) {
	if _, err := ParseScope(string(scope)); err != nil {
		return nil, fmt.Errorf("scope: %w", err)
	}
	a := Approval{Key: key, Scope: scope, At: time.Now().UTC().Truncate(time.Second), Reason: reason}
	if scope != Always {
		if ttl <= 0 {
			return nil, errors.New("an approval that is not for always needs a time to live")
		}
		now, err := s.now()
		if err != nil {
			return nil, err
		}
		a.Boot, a.Until = now.Boot, now.Elapsed+min(ttl, math.MaxInt64-now.Elapsed)
	}
	if scope == Session {
		if session == "" {
			return nil, ErrNoSession
		}
		a.Session = session
	}
	a.ID = a.id()
	err := s.change(ctx, func(list []Approval, _ Moment) ([]Approval, error) {
		list = slices.DeleteFunc(list, func(have Approval) bool { return have.ID == a.ID })
		return append(list, a), nil
	})
	if err != nil {
		return nil, err
	}
	return &a, nil
}

// id tells entries apart: one key may be approved in several sessions.
func (a *Approval) id() string {
	return hex.EncodeToString(digest(a.Key.Digest(), string(a.Scope), a.Session))[:12]
}

// List gives all entries whose time is not over, in the order in which they
// were made.
func (s *Store) List() ([]Approval, error) {
	text, err := s.document().read()
	if err != nil || text == nil {
		return nil, err
	}
	list, err := s.decode(text)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(a Approval) bool { return a.Scope != Always && a.expiredOr(s) }), nil
}

// Revoke removes the entries that matches reports, and gives them.
func (s *Store) Revoke(ctx context.Context, matches func(*Approval) bool) ([]Approval, error) {
	var gone []Approval
	err := s.change(ctx, func(list []Approval, _ Moment) ([]Approval, error) {
		gone = nil
		kept := slices.DeleteFunc(list, func(a Approval) bool {
			if matches(&a) {
				gone = append(gone, a)
				return true
			}
			return false
		})
		if gone == nil {
			return nil, errUnchanged
		}
		return kept, nil
	})
	return gone, err
}

// errUnchanged says that there is nothing to write.
var errUnchanged = errors.New("unchanged")

// change replaces the list under the lock. What has expired is dropped.
func (s *Store) change(ctx context.Context, change func([]Approval, Moment) ([]Approval, error)) error {
	now, err := s.now()
	if err != nil {
		return err
	}
	err = s.document().update(ctx, func(old []byte) ([]byte, error) {
		var list []Approval
		if old != nil {
			var err error
			if list, err = s.decode(old); err != nil {
				return nil, err
			}
		}
		list = slices.DeleteFunc(list, func(a Approval) bool { return a.Expired(now) })
		list, err := change(list, now)
		if err != nil {
			return nil, err
		}
		return encode(list)
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// fileFormat is the file as it is written.
type fileFormat struct {
	Version   int     `json:"version"`
	Approvals []entry `json:"approvals"`
}

type entry struct {
	Scope     Scope         `json:"scope"`
	Argv      []string      `json:"argv"`
	Script    string        `json:"script,omitempty"`
	EnvDigest string        `json:"env_sha256,omitempty"`
	DefDigest string        `json:"definition_sha256,omitempty"`
	Dir       string        `json:"dir"`
	Sandbox   string        `json:"sandbox"`
	Workspace string        `json:"workspace"`
	Session   string        `json:"session,omitempty"`
	At        time.Time     `json:"at"`
	Reason    string        `json:"reason,omitempty"`
	Boot      string        `json:"boot,omitempty"`
	Until     time.Duration `json:"until_ns_since_boot,omitempty"`
}

func encode(list []Approval) ([]byte, error) {
	out := fileFormat{Version: Version, Approvals: make([]entry, len(list))}
	for i, a := range list {
		argv := make([]string, len(a.Argv))
		for j, arg := range a.Argv {
			argv[j] = encodeText(arg)
		}
		out.Approvals[i] = entry{
			Scope: a.Scope, Argv: argv, Script: encodeText(a.Script), EnvDigest: a.Env, DefDigest: a.Definition, Dir: encodeText(a.Dir), Sandbox: encodeText(a.Sandbox),
			Workspace: encodeText(a.Workspace), Session: encodeText(a.Session), At: a.At, Reason: a.Reason, Boot: a.Boot, Until: a.Until,
		}
	}
	text, err := json.MarshalIndent(out, "", "  ")
	return append(text, '\n'), err
}

func (s *Store) decode(text []byte) ([]Approval, error) {
	var in fileFormat
	d := s.document()
	if err := d.strict(text, &in.Version, &in); err != nil {
		return nil, err
	}
	list := make([]Approval, len(in.Approvals))
	for i, e := range in.Approvals {
		a := Approval{
			Key:   Key{Env: e.EnvDigest, Definition: e.DefDigest, Argv: make([]string, len(e.Argv))},
			Scope: e.Scope, At: e.At, Reason: e.Reason, Boot: e.Boot, Until: e.Until,
		}
		if _, err := ParseScope(string(e.Scope)); err != nil {
			return nil, d.tampered("makes no sense (approvals[%d].scope: %v)", i, err)
		}
		texts := []struct {
			to   *string
			from string
		}{{&a.Script, e.Script}, {&a.Dir, e.Dir}, {&a.Sandbox, e.Sandbox}, {&a.Workspace, e.Workspace}, {&a.Session, e.Session}}
		for j := range e.Argv {
			texts = append(texts, struct {
				to   *string
				from string
			}{&a.Argv[j], e.Argv[j]})
		}
		for _, t := range texts {
			var err error
			if *t.to, err = decodeText(t.from); err != nil {
				return nil, d.tampered("makes no sense (approvals[%d]: %v)", i, err)
			}
		}
		a.ID = a.id()
		list[i] = a
	}
	return list, nil
}

// unambiguous refuses what package json would take for one of several things
// that were written: bytes that are not UTF-8, and a name that an object has
// twice, or in other letters.
func unambiguous(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("it is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	var value func() error
	value = func() error { // its depth was bounded by Unmarshal
		token, err := dec.Token()
		open, ok := token.(json.Delim)
		if err != nil || !ok {
			return err
		}
		seen := map[string]bool{}
		for dec.More() {
			if open == '{' {
				token, err := dec.Token()
				if err != nil {
					return err
				}
				name, _ := token.(string)
				if seen[name] || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
					return fmt.Errorf("the name %q is there twice, or is none", name)
				}
				seen[name] = true
			}
			if err := value(); err != nil {
				return err
			}
		}
		_, err = dec.Token()
		return err
	}
	return value()
}

// strict decodes one JSON document of this version into v, and refuses what
// follows it and what it does not know: something that this version cannot
// hold may be what makes an entry narrower than it looks.
func (d document) strict(text []byte, version *int, v any) error {
	// The version alone first: a newer file may have anything else.
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return d.tampered("is not JSON, or only a part of it (%v)", err)
	}
	if head.Version != Version {
		return d.tampered("is of version %d, and this program knows version %d", head.Version, Version)
	}
	if err := unambiguous(text); err != nil {
		return d.tampered("makes no sense (%v)", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return d.tampered("makes no sense (%v)", err)
	}
	if _, err := dec.Token(); err != io.EOF || *version != Version {
		return d.tampered("makes no sense (more than one document)")
	}
	return nil
}
