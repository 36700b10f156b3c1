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

// Version is that of the files' format.
const Version = 2

// These are the files in a store's directory.
const (
	FileName         = "approvals.json"
	TrustFileName    = "trust.json"
	FindingsFileName = "told.json"
	NotedFileName    = "noted.json"
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
	Scope Scope `json:"scope"`
	Key
	ID      string    `json:"-"`                 // names it for Revoke
	Session string    `json:"session,omitempty"` // which one, for the scope session
	At      time.Time `json:"at"`                // by the wall clock, for people
	Reason  string    `json:"reason,omitempty"`  // why the command was not sandboxed then
	// Boot and Until end the scopes once and session.
	Boot  string        `json:"boot,omitempty"`
	Until time.Duration `json:"until_ns_since_boot,omitempty"`
}

// texts are what a command or a file name has chosen.
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

// Store is a directory of files. Its methods may be called from any number of
// goroutines and processes. It touches nothing before it is asked.
type Store struct {
	dir string
	now func() (BootTime, error)
}

// Open gives the store of a directory, which is made when it is first written.
func Open(dir string) *Store { return &Store{dir: dir, now: Now} }

// Dir is the store's directory.
func (s *Store) Dir() string { return s.dir }

func (s *Store) approvals() listFile[Approval, *Approval] {
	return listFile[Approval, *Approval]{document{s.dir, FileName}, "approvals"}
}

// Find gives the approval for a command in a session; nil where there is none.
// One of the scope once is used up by that. The error may be a TamperedError
// and then is something to tell; there is no approval.
func (s *Store) Find(ctx context.Context, key Key, session string) (*Approval, error) {
	found, err := s.Peek(key, session)
	if err != nil || found == nil || found.Scope != Once {
		return found, err
	}
	// Another process may be using it up at this moment.
	err = s.change(ctx, func(list []Approval) ([]Approval, error) {
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
	list, err := s.approvals().list()
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
	err := s.change(ctx, func(list []Approval) ([]Approval, error) {
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
	list, err := s.approvals().list()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(a Approval) bool { return a.Scope != Always && a.expiredOr(s) }), nil
}

// Revoke removes the entries that matches reports, and gives them.
func (s *Store) Revoke(ctx context.Context, matches func(*Approval) bool) ([]Approval, error) {
	var gone []Approval
	err := s.change(ctx, func(list []Approval) ([]Approval, error) {
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

// change replaces the list under the lock. What has expired is dropped.
func (s *Store) change(ctx context.Context, change func([]Approval) ([]Approval, error)) error {
	now, err := s.now()
	if err != nil {
		return err
	}
	return s.approvals().change(ctx, func(list []Approval) ([]Approval, error) {
		return change(slices.DeleteFunc(list, func(a Approval) bool { return a.Expired(now) }))
	})
}
