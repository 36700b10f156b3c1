package native

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

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/engine/mountplan"
	"github.com/sbxhost/sbxhost/internal/engine/nsengine"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

// sessions are this engine's connections to holders, one for each session directory and user, for
// all open sandboxes in it. Sandboxes without a session share the engine's own.
type sessions struct {
	mu   sync.Mutex
	open map[sessionKey]*session
}

type sessionKey struct {
	dir string // empty means the engine's own
	uid uint32
}

// session is the engine's side of one holder.
type session struct {
	key    sessionKey
	config holder.Config
	used   int // guarded by sessions.mu

	connecting chan struct{} // holds one token for the right to connect
	client     *holder.Client
}

func newSession(spec *shared.Spec) *session {
	key := sessionKey{spec.Session.Dir, uint32(os.Geteuid())}
	config := holder.Config{Dir: spec.Session.Dir, Executable: func() (*os.File, error) {
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
	one := s.open[fresh.key]
	if one == nil {
		one = fresh
		s.open[fresh.key] = one
	}
	one.used++
	return one
}

// put ends the connection with its last sandbox. The holder ends with its last connection.
func (s *sessions) put(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.used--; one.used > 0 {
		return
	}
	delete(s.open, one.key)
	switch {
	case one.client == nil:
	case one.key.dir == "":
		one.client.CloseAlone() // nobody else can be in it
	default:
		one.client.Close()
	}
}

// StartEarly starts the holder for sandboxes without a session, or the init for the only command:
// the start takes as long as the first Open.
func (e *engine) StartEarly(ctx context.Context) {
	if os.Getenv(wire.OnceEnv) != "" {
		a, err := e.early()
		<-ctx.Done()
		if !e.taken.Swap(true) && err == nil {
			a.Discard() // the first sandbox needs another kind
		}
		return
	}
	s := e.sessions.get(&shared.Spec{})
	defer e.sessions.put(s)
	if _, err := s.connect(ctx); err == nil {
		<-ctx.Done()
	}
}

func (s *session) startStandalone(network bool) (*holder.StandaloneInit, error) {
	return holder.StartStandalone(s.config, sandboxinit.StandaloneArg, network)
}

// alone returns an init for the one command of a sandbox, which needs no holder.
func (s *openSandbox) alone() (*holder.StandaloneInit, error) {
	network := s.Spec.Network.Mode != shared.NetworkHost
	if network && s.session.config.User == nil && !s.engine.taken.Swap(true) {
		if a, err := s.engine.early(); err == nil {
			return a, nil
		}
	}
	a, err := s.session.startStandalone(network)
	if err != nil {
		err = diagnose(fmt.Errorf("%w: %w", holder.ErrUnavailable, err), nsengine.LookAtKernel())
	}
	return a, err
}

// aloneSpawner starts an init without a holder. It replaces one that died while it waited: nothing
// has run then.
func (s *openSandbox) aloneSpawner(m *work) cmdengine.Spawner {
	return func(ctx context.Context, argv []string, files []*os.File, _ *os.File) (cmdengine.Process, error) {
		waited := s.first.Swap(nil)
		if waited != nil {
			if waited.Run(argv, files) == nil {
				return waited, nil
			}
			waited.Discard()
		}
		a, err := s.alone()
		if err != nil {
			return nil, err
		}
		if len(m.overlays) > 0 {
			var refused map[string]error
			refused, err = a.Overlays(ctx, s.Spec.Session.Dir, m.overlays)
			for _, reason := range refused {
				err = reason
			}
		}
		if err == nil {
			err = a.Run(argv, files)
		}
		if err != nil {
			a.Discard()
			return nil, &shared.Error{Kind: shared.ErrBroken, Message: "starting the init: " + err.Error()}
		}
		return a, nil
	}
}

// connect returns the connection to the holder. It makes a new one if the old one is lost.
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
		default:
			return s.client, nil
		}
	}
	var err error
	s.client, err = holder.Connect(ctx, s.config)
	return s.client, err
}

// join enters the Spec's session and finds out which overlays are possible. A plan without a required
// one is an error.
func (s *openSandbox) join(ctx context.Context) error {
	s.session = s.engine.sessions.get(s.Spec)
	if s.oneShot {
		a, err := s.alone()
		if s.first.Store(a); err == nil {
			err = s.makeOverlays(ctx, func(sources []string) (map[string]error, error) { return a.Overlays(ctx, s.Spec.Session.Dir, sources) })
		}
		if err != nil {
			s.leave()
		}
		return err
	}
	client, err := s.session.connect(ctx)
	if err == nil {
		err = s.makeOverlays(ctx, func(sources []string) (map[string]error, error) {
			refused := map[string]error{}
			for _, source := range sources {
				if err := client.Overlay(ctx, source, s.ownOverlays()); err != nil {
					refused[source] = err
				}
			}
			return refused, ctx.Err()
		})
	} else if ctx.Err() != nil {
		err = ctx.Err()
	} else {
		err = diagnose(err, nsengine.LookAtKernel())
	}
	if err != nil {
		s.leave()
	}
	return err
}

// ownOverlays says that commands share nothing, and so no overlay.
func (s *openSandbox) ownOverlays() bool { return s.Spec.Session.ID == "" }

// makeOverlays finds out which overlays are possible, by making them.
func (s *openSandbox) makeOverlays(ctx context.Context, overlay func(sources []string) (refused map[string]error, err error)) error {
	if s.Spec.Session.Dir != "" {
		s.Support.Holder = true
		s.Support.Refused, s.Support.Foreign = mountplan.NestedOverlays(s.Spec), map[string]bool{}
	}
	var sources []string
	for _, m := range s.Spec.Table {
		if m.Access == shared.Overlay && s.Support.NoOverlay(m.Source) == "" && !slices.Contains(sources, m.Source) {
			sources = append(sources, m.Source)
		}
	}
	if len(sources) > 0 {
		refused, err := overlay(sources)
		if ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			return &shared.Error{Kind: shared.ErrBroken, Message: "making overlays: " + err.Error()}
		}
		for _, source := range sources {
			if reason := refused[source]; reason != nil {
				s.Support.Refused[source] = reason.Error()
			} else {
				s.Support.Foreign[source] = s.session.key.uid != 0 && !ownedBy(source, s.session.key.uid)
			}
		}
	}
	return nil
}

func ownedBy(path string, uid uint32) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) != nil || st.Uid == uid
}

func (s *openSandbox) leave() {
	if a := s.first.Swap(nil); a != nil {
		a.Discard()
	}
	s.engine.sessions.put(s.session)
}

// restored reports the repair of a hidden or protected path whose mount the host removed.
func (m *work) restored(dest, reason string) shared.Event {
	path := m.pathInside(dest)
	e := shared.Event{Kind: shared.EventDegraded, Details: map[string]string{"mechanism": "mount", "path": path},
		Message: path + " was replaced on the host, so for a moment it was neither hidden nor protected; now it is again"}
	if !m.rooted {
		e.Message += ", until a command unmounts it, which nested_userns permits"
	}
	if reason != "" {
		e.Message = path + " was replaced on the host, and is neither hidden nor protected from running commands: " + reason
	}
	return e
}

// pathInside is the path inside of a path in the trees.
func (m *work) pathInside(dest string) string {
	tree, below, _ := strings.Cut(strings.TrimPrefix(dest, "/"), "/")
	top := ""
	for _, o := range m.halves.Command {
		if o.Kind == holder.Move && o.Source == "/"+tree {
			top = strings.TrimPrefix(o.Dest, "/0")
		}
	}
	return strings.TrimSuffix(top+"/"+below, "/")
}

// spawner makes the holder start an init over a tree.
func (s *openSandbox) spawner(m *work, start holder.Start) cmdengine.Spawner {
	return func(ctx context.Context, argv []string, files []*os.File, group *os.File) (cmdengine.Process, error) {
		start := start
		start.Plan, start.Argv, start.Files, start.Group, start.Overlays = m.tree, argv, files, group, m.overlays
		client, err := s.session.connect(ctx)
		if err == nil {
			var l *holder.Process
			if l, err = client.Start(ctx, start); err == nil {
				return &process{l, m, client}, nil
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if failed, ok := errors.AsType[*holder.MountError](err); ok && failed.Shared {
			return nil, s.explain(m.halves.Shared, failed)
		}
		refused := diagnose(err, nsengine.LookAtKernel())
		if errors.Is(err, holder.ErrLost) { // before anything ran; another holder can start
			refused = fmt.Errorf("%w: %w", cmdengine.ErrAgain, refused)
		}
		return nil, refused
	}
}

// explain names the mount that failed.
func (s *openSandbox) explain(steps []holder.Op, failed *holder.MountError) error {
	if failed.Index < 0 || failed.Index >= len(steps) {
		return diagnose(failed, nsengine.LookAtKernel())
	}
	step := steps[failed.Index]
	if step.Kind == holder.Processes || step.Kind == holder.Pseudoterminals {
		return diagnose(failed, nsengine.LookAtKernel()) // about the machine, not a path
	}
	e := &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: step.Why, Message: fmt.Sprintf("mounting %s: %v", quoteStep(step), failed)}
	switch failed.Errno {
	case unix.EACCES:
		e.Kind = shared.ErrDenied
		if u := s.Spec.User; u != nil {
			e.Hint = nsengine.LetSearch(u)
		}
	case unix.ENOENT:
		var st unix.Stat_t
		if err := unix.Lstat(step.Source, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 {
			e.Hint = fmt.Sprintf("remove %q, a character device 0:0: overlays take it for a deleted file", step.Source)
		}
	case unix.ENOSPC, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.EAGAIN:
		e.Kind = shared.ErrUnavailable
	case unix.EFBIG: // by a limit of this process, which holds for its copies of files, too
		e.Kind, e.Attribute, e.Hint = shared.ErrUnavailable, "", "let this process write larger files: ulimit -f"
	}
	return e
}

func quoteStep(o holder.Op) string {
	switch o.Kind {
	case holder.Bind, holder.ReadOnlyBind, holder.Overlay, holder.File:
		return fmt.Sprintf("%q", o.Source)
	}
	return fmt.Sprintf("%q", o.Dest)
}
