package cmdengine

import (
	"context"
	"reflect"
	"slices"
	"sync"

	"github.com/sbxhost/sbxhost/internal/events"
	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/shared"
)

// A persistentSession is what commands share if their Spec's Session has Processes: namespaces,
// with an init as pid 1 that runs no command, one control group and one gate. It lives while one of
// its sandboxes is open.
type persistentSession struct {
	id   string
	spec shared.Spec // as sessionPart returns it

	// Guarded by engine.keeping.
	users       int                 // the number of sandboxes
	credentials []shared.Credential // with the values of the last sandbox
	begun       *sandbox            // the owner of the gate; nil before the first command

	starting chan struct{} // holds one token for the right to use first
	first    *insideRun    // nil before the first command

	mu        sync.Mutex
	listeners map[*func(shared.Event)]bool // the running commands
	gate      Gate                         // the gate of first; may be nil
	// pending has the events since the last command; stopHearing ends those of the gate.
	pending     *events.Queue
	stopHearing func()
}

// sessionPart is the part of a Spec that applies to all of a session, without what each sandbox has for
// itself. If a gate accepts new values of credentials, the values may differ too.
func sessionPart(s *shared.Spec, renews bool) shared.Spec {
	w := *s
	w.Sandbox, w.Table, w.BestEffort, w.Home, w.Prepare = "", nil, false, "", false
	if renews {
		w.Network.Inject.Credentials = slices.Clone(s.Network.Inject.Credentials)
		for i := range w.Network.Inject.Credentials {
			w.Network.Inject.Credentials[i].Value = ""
		}
	}
	return w
}

// keep enters the session of a sandbox. It refuses a Spec with, for example, another network, which
// the session would not enforce. If only a credential's value differs, all commands of the session
// get the new value.
func (e *engine) keep(s *sandbox) (*persistentSession, error) {
	id, renew := s.spec.Session.ID, s.attached.Renew
	spec := sessionPart(&s.spec, renew != nil)
	e.keeping.Lock()
	defer e.keeping.Unlock()
	k := e.sessions[id]
	if k == nil {
		k = &persistentSession{id: id, spec: spec, starting: make(chan struct{}, 1), listeners: map[*func(shared.Event)]bool{}}
		e.sessions[id] = k
	}
	if !reflect.DeepEqual(k.spec, spec) { // not as text, in which all secrets look the same
		return nil, invalid("session.processes", "end them first, or use another session",
			"processes of the session run with another network, user, options, or other credentials or limits")
	}
	k.users++
	k.credentials = s.spec.Network.Inject.Credentials
	k.renew()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keepWhileIdle()
	return k, nil
}

// begin sets the owner of the gate.
func (k *persistentSession) begin(s *sandbox) {
	s.engine.keeping.Lock()
	defer s.engine.keeping.Unlock()
	k.begun = s
	k.renew()
}

// renew gives the gate the newest values. The caller holds engine.keeping.
func (k *persistentSession) renew() {
	if k.begun != nil && k.begun.attached.Renew != nil {
		k.begun.attached.Renew(k.credentials)
	}
}

// leave leaves the session. When the last sandbox leaves, everything in the session ends.
func (e *engine) leave(k *persistentSession) {
	e.keeping.Lock()
	k.users--
	last := k.users == 0
	if last {
		delete(e.sessions, k.id)
	}
	e.keeping.Unlock()
	if !last {
		return
	}
	k.starting <- struct{}{}
	defer func() { <-k.starting }()
	if k.first != nil {
		k.first.giveUp()
		k.first.finish()
	}
}

// member makes c start an init in the session. It begins the session's processes if there are none.
func (s *sandbox) member(ctx context.Context, c *Launch) (notes []shared.Event, err error) {
	k := s.session
	select {
	case k.starting <- struct{}{}:
		defer func() { <-k.starting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if k.first != nil {
		if exiting(k.first.process.Pid()) {
			select { // a command could not join it
			case <-k.first.exited:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		select {
		case <-k.first.exited:
			k.first.finish()
			message := "the session's processes ended, and new ones start: " + k.first.launcherEnd()
			if k.first.oomKills > 0 {
				message += ", limits.memory was used up"
			}
			notes = append(notes, shared.Event{Kind: shared.EventDegraded, Message: message, Details: map[string]string{"mechanism": "session"}})
			k.first = nil
		default:
		}
	}
	if k.first == nil {
		if k.first, err = s.beginSession(ctx); err != nil {
			return nil, err
		}
	}
	c.first = k.first
	c.Spawn, c.Sandbox = c.Shared(k.first.process, nil)
	c.Gate, c.Same = nil, nil
	return notes, nil
}

// beginSession starts pid 1 of a persistent session, with its gate.
func (s *sandbox) beginSession(ctx context.Context) (*insideRun, error) {
	c, err := s.command(&shared.Command{})
	if err != nil {
		return nil, err
	}
	defer frame.CloseFiles(c.ExtraFiles)
	stdio, null, err := stdioFiles(&shared.Command{}, shared.Stdio{})
	if err != nil {
		return nil, err
	}
	defer null.Close()
	s.session.begin(s)
	c.Spawn, c.Sandbox = c.Shared(nil, s.session.emit)
	r, err := s.launch(ctx, s.limits, c, false, stdio)
	if err != nil {
		return nil, err
	}
	if err := r.begin(ctx, stdio, nil, r.conn.Reside); err != nil {
		return nil, r.notStarted(ctx, err)
	}
	s.session.hear(r.gate)
	return r, nil
}

// hear makes the running commands, or else the next one, receive events of a new pid 1's gate.
func (k *persistentSession) hear(gate Gate) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.gate = gate; k.pending != nil {
		k.stopHearing()
		k.hearWhileIdle()
	}
}

// hearGate makes emit receive the gate's events; they do not say which command caused them.
func (k *persistentSession) hearGate(emit func(shared.Event)) (stop func()) {
	if k.gate == nil {
		return func() {}
	}
	return k.gate.Hear(emit, true)
}

// keepWhileIdle keeps events for the next command, if none runs.
func (k *persistentSession) keepWhileIdle() {
	if k.pending == nil && len(k.listeners) == 0 {
		k.pending = events.NewQueue(eventBuffer)
		k.hearWhileIdle()
	}
}

// hearWhileIdle keeps the gate's events about the network. Each command gets the gate's other events
// when it begins to hear.
func (k *persistentSession) hearWhileIdle() {
	pending := k.pending
	k.stopHearing = k.hearGate(func(e shared.Event) {
		if e.Kind == shared.EventNetwork {
			pending.Send(e)
		}
	})
}

// takePending returns the kept events, and stops keeping them.
func (k *persistentSession) takePending() (list []shared.Event) {
	if k.pending == nil {
		return nil
	}
	k.stopHearing()
	k.pending.Close()
	for e := range k.pending.Events() {
		list = append(list, e)
	}
	k.pending, k.stopHearing = nil, nil
	return list
}

// emit sends to all running commands.
func (k *persistentSession) emit(e shared.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for emit := range k.listeners {
		(*emit)(e)
	}
	if k.pending != nil {
		k.pending.Send(e)
	}
}

// DrainEvents implements [shared.EventDrainer].
func (s *sandbox) DrainEvents() []shared.Event {
	if s.session == nil {
		return nil
	}
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	list := s.session.takePending()
	s.session.keepWhileIdle()
	return list
}

// listen makes a command receive events until stop, after those that no command has received. The
// command hears of each refusal during its run, even if another command has heard of it.
func (k *persistentSession) listen(emit func(shared.Event)) (stop func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	stopHearing := k.hearGate(emit) // before the other stops, so that no event is lost
	for _, e := range k.takePending() {
		emit(e)
	}
	k.listeners[&emit] = true
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.listeners, &emit)
		k.keepWhileIdle()
		stopHearing()
	}
}
