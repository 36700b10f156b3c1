package bwrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
	"github.com/sbxhost/sbxhost/shared/holder"
	"github.com/sbxhost/sbxhost/shared/mountplan"
	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// sessions are this engine's connections to holders, one for each session
// directory and user, shared by the sandboxes that are open in it.
type sessions struct {
	mu   sync.Mutex
	open map[sessionKey]*session
}

type sessionKey struct {
	dir string
	uid uint32
}

// session is the engine's side of one holder.
type session struct {
	key    sessionKey
	config holder.Config
	used   int // under sessions.mu

	connecting chan struct{} // holds one token: who has it may connect
	client     *holder.Client
}

// newSession is for a Spec's session, which can be none: its holder then has one client.
func newSession(spec *shared.Spec) *session {
	key := sessionKey{spec.Session.Dir, uint32(os.Geteuid())}
	config := holder.Config{Dir: spec.Session.Dir, Abandoned: func() { sandboxinit.KillOrphans(0) }, Executable: func() (*os.File, error) {
		binary, err := sandboxinit.Locate()
		if err != nil {
			return nil, err
		}
		return binary.Open()
	}}
	if u := spec.User; u != nil && os.Geteuid() == 0 {
		key.uid = u.UID
		config.User = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: slices.Clone(u.Groups)}
	}
	return &session{key: key, config: config, connecting: make(chan struct{}, 1)}
}

func (s *sessions) get(spec *shared.Spec) *session {
	fresh := newSession(spec)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[sessionKey]*session{}
	}
	one := s.open[fresh.key]
	if one == nil {
		one = fresh
		s.open[fresh.key] = one
	}
	one.used++
	return one
}

// put ends the connection with its last sandbox, and with the last connection the
// holder ends.
func (s *sessions) put(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.used--; one.used > 0 {
		return
	}
	delete(s.open, one.key)
	if one.client != nil {
		one.client.Close()
	}
}

// connect gives the connection to the session's holder, a new one where the
// former is lost.
func (s *session) connect(ctx context.Context) (*holder.Client, error) {
	select {
	case s.connecting <- struct{}{}:
		defer func() { <-s.connecting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.client != nil {
		select {
		case <-s.client.Lost():
			// Killed, perhaps at a moment at which its launchers could not follow.
			sandboxinit.KillOrphans(0)
			s.client = nil
		default:
			return s.client, nil
		}
	}
	client, err := holder.Connect(ctx, s.config)
	if err != nil {
		return nil, err
	}
	s.client = client
	return client, nil
}

// join enters the Spec's session and finds out what it can hold. What may not be
// degraded is an error.
func (s *opened) join(ctx context.Context) error {
	if s.spec.Session.Dir == "" {
		return s.refuse()
	}
	s.session = s.engine.sessions.get(s.spec)
	client, err := s.session.connect(ctx)
	if err != nil {
		s.leave()
		s.session = nil
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.held.Reason = err.Error()
		return s.refuse()
	}
	s.held.Holder = true
	s.held.Refused, s.held.Foreign = mountplan.Overlap(s.spec), map[string]bool{}
	for _, m := range s.spec.Table {
		if m.Access != shared.Overlay || s.held.Refused[m.Source] != "" {
			continue
		}
		if err := client.Overlay(ctx, m.Source); err != nil {
			if ctx.Err() != nil {
				s.leave()
				return ctx.Err()
			}
			s.held.Refused[m.Source] = err.Error()
			continue
		}
		s.held.Foreign[m.Source] = s.session.key.uid != 0 && !ownedBy(m.Source, s.session.key.uid)
	}
	if err := s.refuse(); err != nil {
		s.leave()
		return err
	}
	return nil
}

func ownedBy(path string, uid uint32) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) != nil || st.Uid == uid
}

// refuse is the error of an overlay that there cannot be, and must be.
func (s *opened) refuse() error {
	for _, m := range s.spec.Table {
		if m.Access != shared.Overlay || m.Degradable {
			continue
		}
		if reason := s.held.Overlay(m.Source); reason != "" {
			return &shared.Error{Kind: shared.ErrUnsupported, Attribute: m.Why, Message: fmt.Sprintf("no overlay of %s: %s", m.Source, reason)}
		}
	}
	return nil
}

func (s *opened) leave() {
	if s.session != nil {
		s.engine.sessions.put(s.session)
	}
	s.crowding.Lock()
	defer s.crowding.Unlock()
	if s.crowd != nil && s.crowd.client != nil {
		s.crowd.client.Close()
	}
}

// holderOf gives a holder for a plan that is crowded, in a sandbox that shares
// nothing: one of its own, which ends with it. It is nil where bubblewrap does, or
// where there can be no holder here.
func (s *opened) holderOf(ctx context.Context, ops []mountplan.Op) *session {
	if !mountplan.Crowded(ops) {
		return nil
	}
	s.crowding.Lock()
	defer s.crowding.Unlock()
	if s.crowd == nil {
		s.crowd = newSession(&shared.Spec{User: s.spec.User})
	}
	if _, err := s.crowd.connect(ctx); err != nil {
		return nil
	}
	return s.crowd
}

// spawner has the session's holder start a launcher in the prepared part of a
// plan. A holder that dies before it has answered is replaced once: nothing has
// run then.
func (s *opened) spawner(by *session, p mountplan.Prepared) cmdengine.Spawner {
	plan := holder.NewPlan(p.Steps)
	return func(ctx context.Context, path string, argv []string, files []*os.File) (cmdengine.Launched, error) {
		var err error
		for range 2 {
			var client *holder.Client
			if client, err = by.connect(ctx); err != nil {
				break
			}
			var l *holder.Launcher
			if l, err = client.Start(ctx, plan, p.Late, path, argv, files); err == nil {
				return l, nil
			}
			if !errors.Is(err, holder.ErrLost) {
				break
			}
			<-client.Lost()
		}
		return nil, s.startError(ctx, p, err)
	}
}

func (s *opened) startError(ctx context.Context, p mountplan.Prepared, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if failed, ok := errors.AsType[*holder.MountError](err); ok {
		e := &shared.Error{Kind: shared.ErrUnavailable, Message: "the session's holder: " + failed.Error()}
		if failed.Index >= 0 && failed.Index < len(p.Steps) {
			step := p.Steps[failed.Index]
			e.Kind, e.Attribute = shared.ErrInvalidSpec, p.Why[failed.Index]
			e.Message = fmt.Sprintf("mounting %s: %s", quoteStep(step), failed.Error())
			if strings.Contains(failed.Error(), unix.EACCES.Error()) {
				e.Kind = shared.ErrDenied
			}
		}
		return s.denied(e)
	}
	kind := shared.ErrUnavailable
	if errors.Is(err, holder.ErrLost) {
		kind = shared.ErrBroken
	}
	return &shared.Error{Kind: kind, Message: err.Error()}
}

func quoteStep(o holder.Op) string {
	if o.Source != "" && o.Kind != holder.Symlink && o.Kind != holder.Home {
		return fmt.Sprintf("%q", o.Source)
	}
	return fmt.Sprintf("%q", o.Dest)
}
