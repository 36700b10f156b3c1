package host

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// SessionOptions say what commands share. The zero value gives a Host a session
// of its own: a private directory, made at the first command and removed by
// Close, that keeps what commands write to their home, to the workspace's extra
// readable roots and to toolchains. Nothing of that is seen by another Host.
//
// Commands of definitions that differ in Credentials share the workspace and
// WorkspaceOptions.Temp, and nothing else: what a command leaves in its home, such
// as a ~/.bashrc, or in a toolchain's cache, would run in the next one that has
// credentials.
//
// The directory is made in $XDG_CACHE_HOME/sbxhost/sessions, or in ~/.cache, of
// Options.Environ. Where it cannot be, Report.Degraded says so and every command
// starts anew; only a Name and WorkspaceOptions.Temp cannot do without.
//
// What an engine keeps in memory it caps at Limits.TempSize. The home of a session
// with a Name and the directory of WorkspaceOptions.Temp are on a disk instead,
// and measured: each may hold Limits.TempSize, or 4 GiB, before a command, and
// what finds more there is refused with ErrSessionFull. As nothing stops who
// writes, that is an approximation, which Limits.Enforce has to allow.
//
// A caller that is root, for commands that run as the owner of the workspace,
// has it in /var/cache/sbxhost/UID: that is neither the user's, who could lead
// root astray by symlinks, nor closed to the user as root's home is.
type SessionOptions struct {
	// Name makes the session one that Hosts of this user share, at once and one
	// after another, if they work on the same workspace. It is kept until
	// RemoveSession, or until nobody has used it for seven days. Letters,
	// digits, ".", "_" and "-", at most 64, the first a letter or digit.
	Name string
	// Once says that the Host runs one command and so shares nothing, which
	// starts it faster: there is no session unless something is to be
	// written to it.
	Once bool
	// Dir is where directories of sessions are made, an absolute path that is
	// this user's alone to write. Empty means the place above.
	Dir string
}

// Directories of a session's umbrella that commands write to. Each reach but the
// plain one has a home of its own, and a directory in which its engines keep the
// rest.
const (
	tempDir  = "tmp"
	homeDir  = "home"
	reachDir = "reach"
)

// reach is what commands of a definition have besides files: their credentials. It
// is empty for those that have none. The network does not count: what one command
// has downloaded into a cache, another builds with offline.
func reach(d Definition) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(d.Credentials))), "_")
}

// reachSub is the name of a directory of the umbrella that is one reach's own.
func reachSub(name, reach string) string {
	if reach == "" {
		return name
	}
	return name + "-" + reach
}

// session is the session of a Host.
type session struct {
	once, needed bool // needed: to fail rather than to do without
	base         string
	umbrella     *workspace.Umbrella
	baseErr      error // why there is no base
	id           string
	root         string // of the workspace
	logger       hclog.Logger

	lock    chan struct{} // a mutex whose waiters can give up; it guards what follows
	closed  bool
	current map[string]sessionState // by reach

	stopSweep context.CancelFunc // nil: none was begun
	swept     chan struct{}
}

// newSession prepares a session and makes nothing.
func newSession(o SessionOptions, temp bool, ws *workspace.Workspace, owner *owner, c caller, logger hclog.Logger) (*session, error) {
	s := &session{lock: make(chan struct{}, 1), once: o.Once, needed: temp || o.Name != "", id: rand.Text(), root: ws.Root(), logger: logger, current: map[string]sessionState{}}
	s.base, s.baseErr = sessionBase(o, owner, c)
	if s.baseErr != nil {
		if s.needed {
			return nil, fmt.Errorf("session: %w", s.baseErr)
		}
		return s, nil
	}
	u := workspace.UmbrellaOptions{Base: s.base, Name: o.Name}
	if owner != nil {
		u.Owner = &workspace.Owner{UID: owner.user.UID, GID: owner.user.GID}
	}
	var err error
	if s.umbrella, err = workspace.NewUmbrella(u); err != nil {
		return nil, err
	}
	return s, nil
}

// sessionBase is the directory that holds sessions.
func sessionBase(o SessionOptions, owner *owner, c caller) (string, error) {
	switch {
	case o.Dir != "":
		return o.Dir, nil
	case owner != nil:
		return filepath.Join(workspace.SystemSessionsDir(), strconv.FormatUint(uint64(owner.user.UID), 10)), nil
	}
	return workspace.SessionsDir(c.lookupEnv)
}

// named reports whether the session has a name.
func (s *session) named() bool { return s.umbrella != nil && s.umbrella.Name() != "" }

// get gives the session for commands of a reach, with its directory where it has
// one: one that is asked for, or that write says is needed to keep what it writes.
func (s *session) get(ctx context.Context, reach string, write bool) (sessionState, error) {
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
		return sessionState{}, ctx.Err()
	}
	state, known := s.current[reach]
	switch {
	case s.closed:
		return sessionState{}, ErrClosed
	case known:
		return state, nil
	case s.once && !s.needed && !write:
		return sessionState{Session: shared.Session{ID: reachSub(s.id, reach)}}, nil
	}
	state, err := s.open(ctx, reach)
	switch {
	case err != nil && ctx.Err() != nil:
		return sessionState{}, context.Cause(ctx) // which says nothing of the next command's session
	case err == nil && s.stopSweep == nil:
		s.sweep()
	case err != nil && s.needed:
		return sessionState{}, err
	case err != nil:
		state = sessionState{Session: shared.Session{ID: reachSub(s.id, reach)},
			note: fmt.Sprintf("session: commands share nothing and read-only directories are not made writable: %v", err)}
	}
	s.current[reach] = state
	return state, nil
}

// sessionState is what a command has of its session.
type sessionState struct {
	shared.Session
	home string // host directory that is the home inside; "" leaves it to the engine
	note string // what is not as asked
}

// temp makes the directory that is /tmp inside.
func (s *session) temp(ctx context.Context) (string, error) {
	if _, err := s.get(ctx, "", true); err != nil {
		return "", err
	}
	return s.umbrella.Sub(ctx, tempDir)
}

func (s *session) open(ctx context.Context, reach string) (state sessionState, err error) {
	at(ctx, "it waited for the lock of its session")
	if s.baseErr != nil {
		return state, s.baseErr
	}
	if state.Dir, err = s.umbrella.Dir(ctx); err != nil {
		return state, err
	}
	if err := s.umbrella.Claim(ctx, s.root); err != nil {
		return state, err
	}
	if reach != "" {
		if state.Dir, err = s.umbrella.Sub(ctx, reachSub(reachDir, reach)); err != nil {
			return state, err
		}
	}
	if !s.named() {
		state.ID = reachSub(s.id, reach)
		return state, nil
	}
	// The same for all who share it, and nobody else's.
	sum := sha256.Sum256([]byte(state.Dir))
	state.ID, state.Named = hex.EncodeToString(sum[:16]), true
	// The memory that an engine keeps for a home goes with its last command.
	state.home, err = s.umbrella.Sub(ctx, reachSub(homeDir, reach))
	return state, err
}

// sweep removes, now and then, what crashed processes have left, while the
// command runs.
func (s *session) sweep() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stopSweep, s.swept = cancel, make(chan struct{})
	go func() {
		defer close(s.swept)
		removed, err := workspace.SweepRarely(ctx, s.base)
		if len(removed) > 0 {
			s.logger.Debug("removed sessions that nobody uses", "count", len(removed))
		}
		if err != nil && ctx.Err() == nil {
			s.logger.Warn("removing sessions that nobody uses", "error", err)
		}
	}()
}

// close gives the session up, once nothing runs in it any more.
func (s *session) close() error {
	if s == nil {
		return nil
	}
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	s.closed = true
	if s.stopSweep != nil {
		s.stopSweep()
		<-s.swept
	}
	if s.umbrella == nil {
		return nil
	}
	return s.umbrella.Close()
}

// resolve resolves a definition in the Host's session.
func (h *Host) resolve(ctx context.Context, name string, def Definition, unconfined bool) (*resolved, error) {
	r := h.resolver
	if unconfined {
		r.unisolated = func(Definition) bool { return true }
	}
	for write := false; ; write = true {
		state, err := h.session.get(ctx, reach(def), write)
		if err != nil {
			return nil, err
		}
		if r.session = state.Session; !r.unconfined(def) {
			r.sessionHome = state.home // elsewhere it is the caller's
		}
		at(ctx, "the workspace was searched")
		out, err := r.resolve(ctx, name, def)
		switch {
		case err != nil:
			return nil, &SandboxError{Sandbox: name, Err: err}
		case out.WantsSession && !write:
			continue // one that is made on demand
		}
		if err := admitSessionDirs(&out.spec); err != nil {
			return nil, &SandboxError{Sandbox: name, Err: err}
		}
		if state.note != "" {
			out.notes = append(out.notes, state.note)
		}
		if err := makeMountPoints(&out.spec); err != nil {
			return nil, &SandboxError{Sandbox: name, Err: err}
		}
		return out, nil
	}
}

// sessionOf says which session a sandbox is in.
func (h *Host) sessionOf(opened *openSandbox) SessionReport {
	s := SessionReport{Dir: opened.resolved.spec.Session.Dir}
	if h.session.named() {
		s.Name = h.session.umbrella.Name()
	}
	return s
}

// overlaysOf lists where what is written lasts for the session.
func overlaysOf(spec *shared.Spec) []string {
	var list []string
	for _, m := range spec.Table {
		if m.Access == shared.Overlay && !spec.Unconfined {
			list = append(list, m.Path)
		}
	}
	return list
}
