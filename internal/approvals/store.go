package approvals

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"
)

// The files in a store's directory.
const (
	FileName         = "approvals.json"
	TrustFileName    = "trust.json"
	FindingsFileName = "findings.json"
	NotedFileName    = "noted.json"
)

// DefaultTTL is how long approvals of the scopes once and session are valid.
const DefaultTTL = 6 * time.Hour

// Dir returns the directory of the user's store, $XDG_STATE_HOME/sbxhost or ~/.local/state/sbxhost;
// empty if neither variable is set.
func Dir(getenv func(string) string) string {
	// By the XDG specification, relative values are ignored.
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "sbxhost")
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "sbxhost")
	}
	return ""
}

// Scope says how long an approval is valid. The zero value is no scope.
type Scope string

const (
	Once    Scope = "once"    // the first command that needs it
	Session Scope = "session" // one session, for a time
	Always  Scope = "always"  // until somebody revokes it
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
	Scope Scope `json:"scope"`
	Key
	ID      string    `json:"-"`                 // names it for Revoke
	Session string    `json:"session,omitempty"` // the session, for the scope session
	At      time.Time `json:"at"`                // by the wall clock, for people
	Reason  string    `json:"reason,omitempty"`  // why the command was not sandboxed then
	// Boot and Until end the scopes once and session.
	Boot  string        `json:"boot,omitempty"`
	Until time.Duration `json:"until_ns_since_boot,omitempty"`
}

// texts returns the texts that a command or a file name has chosen.
func (a *Approval) texts() []*string {
	texts := []*string{&a.Script, &a.Dir, &a.Sandbox, &a.Workspace, &a.Session}
	a.Argv = append([]string{}, a.Argv...)
	for i := range a.Argv {
		texts = append(texts, &a.Argv[i])
	}
	return texts
}

func (a *Approval) check() error {
	if _, err := ParseScope(string(a.Scope)); err != nil {
		return fmt.Errorf("scope: %w", err)
	}
	a.ID = a.id()
	return nil
}

// Expired reports whether the approval's time is over at a moment.
func (a *Approval) Expired(now BootTime) bool {
	return a.Scope != Always && (a.Boot != now.Boot || now.Elapsed >= a.Until)
}

// Store is a directory of files. Any number of goroutines and processes may call its methods. It
// opens no file before the first call.
type Store struct {
	dir string
	now func() (BootTime, error)
}

// Open returns the store of a directory. The first write creates the directory. Without a directory,
// the store is empty, and a write fails.
func Open(dir string) *Store { return &Store{dir: dir, now: Now} }

// Dir returns the store's directory.
func (s *Store) Dir() string { return s.dir }

func (s *Store) approvals() listFile[Approval, *Approval] {
	return listFile[Approval, *Approval]{document{s.dir, FileName}, "approvals"}
}

// Find returns the approval for a command in a session; nil if there is none. It uses up an
// approval of the scope once. If the error wraps ErrTampered, there is no approval, and the user
// should see the error.
func (s *Store) Find(ctx context.Context, key Key, session string) (*Approval, error) {
	found, err := s.Peek(key, session)
	if err != nil || found == nil || found.Scope != Once {
		return found, err
	}
	// Another process may use it up at this moment.
	err = s.change(ctx, func(list []Approval) []Approval {
		i := slices.IndexFunc(list, func(a Approval) bool { return a.ID == found.ID })
		if i < 0 {
			found = nil
			return list
		}
		return slices.Delete(list, i, i+1)
	})
	if err != nil {
		return nil, fmt.Errorf("an approval cannot be used up: %w", err)
	}
	return found, nil
}

// Peek is Find, but uses nothing up.
func (s *Store) Peek(key Key, session string) (*Approval, error) {
	list, err := s.List()
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
		// Keep the scope once if a wider approval serves.
		if best == nil || rank(a.Scope) > rank(best.Scope) {
			best = a
		}
	}
	return best, nil
}

func rank(s Scope) int { return slices.Index([]Scope{Once, Session, Always}, s) }

// Add stores an approval for key, with a scope; a session for the scope session; and a time, which
// every scope except always needs.
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
	err := s.change(ctx, func(list []Approval) []Approval {
		list = slices.DeleteFunc(list, func(have Approval) bool { return have.ID == a.ID })
		return append(list, a)
	})
	if err != nil {
		return nil, err
	}
	return &a, nil
}

// id distinguishes entries: a key may have approvals in several sessions.
func (a *Approval) id() string {
	return hex.EncodeToString(digest(a.Key.Digest(), string(a.Scope), a.Session))[:12]
}

// List returns all entries whose time is not over, in the order of their creation.
func (s *Store) List() ([]Approval, error) {
	list, err := s.approvals().list()
	return s.unexpired(list), err
}

// unexpired drops the entries whose time is over. If nobody knows the time, it is over.
func (s *Store) unexpired(list []Approval) []Approval {
	now, err := s.now()
	return slices.DeleteFunc(list, func(a Approval) bool { return a.Scope != Always && (err != nil || a.Expired(now)) })
}

// Revoke removes the entries for which matches returns true, and returns them.
func (s *Store) Revoke(ctx context.Context, matches func(*Approval) bool) ([]Approval, error) {
	var gone []Approval
	err := s.change(ctx, func(list []Approval) []Approval {
		return slices.DeleteFunc(list, func(a Approval) bool {
			if matches(&a) {
				gone = append(gone, a)
				return true
			}
			return false
		})
	})
	return gone, err
}

// change replaces the list under the lock. It drops expired entries.
func (s *Store) change(ctx context.Context, change func([]Approval) []Approval) error {
	return s.approvals().change(ctx, func(list []Approval) []Approval { return change(s.unexpired(list)) })
}
