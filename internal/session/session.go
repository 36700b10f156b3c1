//go:build unix

package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/sbxhost/sbxhost/internal/sessiondir"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// Directories of a session's directory that commands write to. Each CredentialKey, except the empty
// one, has a home of its own, and a directory for its engines.
const (
	tempDir        = "tmp"
	homeDir        = "home"
	credentialsDir = "credentials"
)

// CredentialKey identifies what commands of a definition have besides files: their credentials. It
// may be empty. The network does not count: one command downloads into a cache, and another builds
// with it offline.
func CredentialKey(d *view.Definition, own map[string]view.Credential) string {
	parts, injected := view.SplitCredentials(d, own)
	for i, name := range parts {
		parts[i] = "pass-" + name
	}
	for _, name := range injected {
		parts = append(parts, "inject-"+name) // commands can use them without having them
	}
	// As a directory's name, different for each list: names can have all characters of a
	// directory's name.
	for i, name := range parts {
		parts[i] = strings.ReplaceAll(name, "_", "__")
	}
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(parts))), "_-")
}

// subName names a directory of the session, or an ID, for one CredentialKey.
func subName(name, key string) string {
	if key == "" {
		return name
	}
	return name + "-" + key
}

// Session is the session of a Host.
type Session struct {
	oneShot, needed bool // needed: fail rather than do without
	each, temp      bool
	owner           *sessiondir.User
	base            string
	dir             *sessiondir.Dir
	baseErr         error // why there is no base
	id              string
	root            string // of the workspace
	logger          hclog.Logger

	mu     sync.Mutex
	closed bool

	planned  *sessiondir.Dir   // of plans; may be nil
	standIns map[string]string // its directories, with those that they stand for
	current  map[string]State  // by CredentialKey

	stopSweep context.CancelFunc // nil: no sweep has begun
	sweepDone chan struct{}
}

// Purpose is the use of a session.
type Purpose struct {
	Root      string           // of the workspace
	Temp      bool             // a directory of the session is /tmp inside
	Owner     *sessiondir.User // the commands' user; nil is the caller
	LookupEnv func(string) (string, bool)
	Writable  func() []string // the directories where commands can write
	Logger    hclog.Logger
}

// New prepares a session. It makes no directory.
func New(o Options, f Purpose) (*Session, error) {
	s := &Session{oneShot: o.OneShot || o.Each, each: o.Each, owner: f.Owner, temp: f.Temp, needed: f.Temp || o.Name != "", id: rand.Text(), root: f.Root, logger: f.Logger, current: map[string]State{}, standIns: map[string]string{}}
	switch {
	case o.Dir != "":
		s.base = o.Dir
	case f.Owner != nil:
		s.base = filepath.Join(sessiondir.SystemBase(), strconv.FormatUint(uint64(f.Owner.UID), 10))
	default:
		s.base, s.baseErr = sessiondir.UserBase(f.LookupEnv)
	}
	if s.baseErr == nil {
		s.base, s.baseErr = sessiondir.ResolveBase(s.base, f.Writable)
	}
	if s.baseErr != nil {
		if s.needed || o.Dir != "" {
			return nil, fmt.Errorf("session: %w", s.baseErr)
		}
		return s, nil
	}
	var err error
	if s.dir, err = sessiondir.New(s.base, o.Name, f.Owner); err != nil {
		return nil, err
	}
	return s, nil
}

// Each reports whether each command has a session of its own.
func (s *Session) Each() bool { return s.each }

// Base is the directory above the session's; may be empty.
func (s *Session) Base() string { return s.base }

// Name is empty for a Host's own session.
func (s *Session) Name() string {
	if s.dir == nil {
		return ""
	}
	return s.dir.Name()
}

// Get returns the session for commands with a CredentialKey, with its directory if there is one: if
// it is required, or if write says that a command can write to it.
func (s *Session) Get(key string, write bool) (State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir != nil && s.dir.Renew() {
		clear(s.current)
	}
	state, known := s.current[key]
	switch {
	case s.closed:
		return State{}, ErrClosed
	case s.each && s.needed:
		return State{}, ErrNoSession
	case known:
		return state, nil
	case s.oneShot && !s.needed && !write:
		return State{Session: shared.Session{ID: s.idOf(key)}}, nil
	}
	state, err := s.open(s.dir, key)
	switch {
	case err == nil && s.stopSweep == nil:
		s.sweep()
	case err != nil && s.needed:
		return State{}, err
	case err != nil:
		state = State{Session: shared.Session{ID: s.idOf(key)},
			Note: fmt.Sprintf("session: commands share nothing and read-only directories are not made writable: %v", err)}
	}
	s.current[key] = state
	return state, nil
}

// idOf is the ID of a session without a name: empty if commands share nothing. The engine then
// keeps each command's own files in the one directory.
func (s *Session) idOf(key string) string {
	if s.oneShot && s.Name() == "" {
		return ""
	}
	return s.SharedID(key)
}

// SharedID is the ID of a session without a name whose commands share what they write.
func (s *Session) SharedID(key string) string { return subName(s.id, key) }

// State is a command's part of its session.
type State struct {
	shared.Session
	Home string // host directory that is the home inside; "" leaves it to the engine
	Note string // what is not as asked
}

// Temp makes the directory that is /tmp inside. It also does so while another process has the
// session, for which the commands wait, or fail.
func (s *Session) Temp() (string, error) {
	dir := s.dir
	if _, err := s.Get("", true); errors.Is(err, sessiondir.ErrInUse) {
		dir = dir.Guest()
	} else if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return dir.Sub(tempDir)
}

// Plan is Get for a plan while the session is held. An engine cannot open a session twice, so the
// plan gets an empty one, with the home of the held one.
func (s *Session) Plan(key string, held *InUseError) (state State, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return state, ErrClosed
	}
	original, err := s.open(s.dir.Guest(), key)
	if err != nil {
		return original, err
	}
	if s.planned == nil {
		if s.planned, err = sessiondir.New(s.base, "", s.owner); err != nil {
			return state, err
		}
	}
	if state, err = s.open(s.planned, key); err != nil {
		return state, err
	}
	s.standIns[state.Dir] = original.Dir
	state.Home, state.Note = original.Home, held.Error()+": the plan is for an empty one"
	return state, nil
}

// Shown is the directory of a State as people know it.
func (s *Session) Shown(dir string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.standIns[dir], dir)
}

func (s *Session) open(dir *sessiondir.Dir, key string) (state State, err error) {
	if s.baseErr != nil {
		return state, s.baseErr
	}
	if state.Dir, err = dir.Path(); err != nil {
		return state, err
	}
	if err := dir.Claim(s.root); err != nil {
		return state, err
	}
	if s.temp { // somebody may have removed the session since Temp
		if _, err = dir.Sub(tempDir); err != nil {
			return state, err
		}
	}
	if key != "" {
		if state.Dir, err = dir.Sub(subName(credentialsDir, key)); err != nil {
			return state, err
		}
	}
	if dir.Name() == "" {
		state.ID = s.idOf(key)
		return state, nil
	}
	state.ID = ID(state.Dir)
	// An engine's memory for a home ends with its last command.
	state.Home, err = dir.Sub(subName(homeDir, key))
	return state, err
}

// ID is that of a session with this directory: the same in all processes.
func ID(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:16])
}

// sweep removes what crashed processes have left, while the command runs.
func (s *Session) sweep() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stopSweep, s.sweepDone = cancel, make(chan struct{})
	go func() {
		defer close(s.sweepDone)
		removed, err := sessiondir.Sweep(ctx, s.base)
		if len(removed) > 0 {
			s.logger.Debug("removed unused sessions", "count", len(removed))
		}
		if err != nil && ctx.Err() == nil {
			s.logger.Warn("removing unused sessions", "error", err)
		}
	}()
}

// Close gives the session up, when nothing runs in it any more.
func (s *Session) Close() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.stopSweep != nil {
		s.stopSweep()
		<-s.sweepDone
	}
	var errs []error
	for _, dir := range []*sessiondir.Dir{s.dir, s.planned} {
		if dir != nil {
			errs = append(errs, dir.Close())
		}
	}
	return errors.Join(errs...)
}
