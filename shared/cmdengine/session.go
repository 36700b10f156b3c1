package cmdengine

import (
	"context"
	"os"
	"reflect"
	"sync"

	"github.com/sbxhost/sbxhost/shared"
)

// A kept session is what commands share whose Spec's Session has Processes: namespaces, with an
// init as pid 1 that runs no command, one control group and one gate. It lasts as long as
// one of its sandboxes is open.
type persistentSession struct {
	id   string
	spec shared.Spec // as of wholly

	// under engine.keeping
	users       int                 // sandboxes
	credentials []shared.Credential // with the values that the last one came with
	begun       *sandbox            // whose gate it is; nil before the first command

	starting chan struct{} // holds one token: who has it may look at first
	first    *insideRun    // nil before the first command

	mu        sync.Mutex
	listeners map[*func(shared.Event)]bool // the commands that run
	gate      Gate                         // of first; nil where it has none
	// pending has what nobody has heard yet, where no command runs, and deaf ends what fills it.
	pending *events
	deaf    func()
}

// wholly is what of a Spec holds for all that runs in a kept session: all but what each sandbox has for
// itself. Where a gate takes other values of credentials, these can differ as well.
func wholly(s *shared.Spec, renews bool) shared.Spec {
	w := clone(*s)
	w.Sandbox, w.Table, w.BestEffort, w.Home, w.Prepare = "", nil, false, "", false
	if renews {
		for i := range w.Network.Inject.Credentials {
			w.Network.Inject.Credentials[i].Value = ""
		}
	}
	return w
}

// keep enters the kept session of a sandbox. One whose Spec has another network, for example, would not
// be held to it there. A credential with another value is one that was renewed: who has it still in the
// session gets the new one, too.
func (e *engine) keep(s *sandbox) (*persistentSession, error) {
	id, renew := s.spec.Session.ID, s.attached.Renew
	spec := wholly(&s.spec, renew != nil)
	e.keeping.Lock()
	defer e.keeping.Unlock()
	if e.sessions == nil {
		e.sessions = map[string]*persistentSession{}
	}
	k := e.sessions[id]
	if k == nil {
		k = &persistentSession{id: id, spec: spec, starting: make(chan struct{}, 1), listeners: map[*func(shared.Event)]bool{}}
		e.sessions[id] = k
	}
	if !reflect.DeepEqual(k.spec, spec) { // not as text, in which all secrets are one
		return nil, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "session.processes",
			Message: "processes run in the session whose network, credentials, limits, user or options are others", Hint: "end them first, or use another session"}
	}
	k.users++
	k.credentials = s.spec.Network.Inject.Credentials
	k.renew()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listenIdly()
	return k, nil
}

// begin notes whose gate it is.
func (k *persistentSession) begin(s *sandbox) {
	s.engine.keeping.Lock()
	defer s.engine.keeping.Unlock()
	k.begun = s
	k.renew()
}

// renew has the gate use the newest values. engine.keeping is held.
func (k *persistentSession) renew() {
	if k.begun != nil && k.begun.attached.Renew != nil {
		k.begun.attached.Renew(k.credentials)
	}
}

// leave gives it up. With its last sandbox all that runs in it ends.
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

// member makes of c, a command's, one that starts an init in the kept session, which it begins where
// that has no processes yet, or none any more.
func (s *sandbox) member(ctx context.Context, c *Launch) (notes []shared.Event, err error) {
	k := s.session
	select {
	case k.starting <- struct{}{}:
		defer func() { <-k.starting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if k.first != nil {
		if over(k.first.process.Pid()) {
			select { // a command could not join it
			case <-k.first.exited:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		select {
		case <-k.first.exited:
			k.first.finish()
			message := "the session's processes have ended, and begin anew: " + k.first.launcherEnd()
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
	c.Spawn, c.Sandbox = c.Shared(k.first.process)
	c.Gate, c.Same = nil, nil
	return notes, nil
}

// beginSession starts pid 1 of a kept session, with its gate.
func (s *sandbox) beginSession(ctx context.Context) (*insideRun, error) {
	c, err := s.command(ctx, &shared.Command{})
	if err != nil {
		return nil, err
	}
	defer closeAll(c.ExtraFiles)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Message: err.Error()}
	}
	defer null.Close()
	s.session.begin(s)
	c.Spawn, c.Sandbox = c.Shared(nil)
	stdio := [3]*os.File{null, null, null}
	r, err := s.launch(ctx, s.limits, c, false, stdio)
	if err != nil {
		return nil, err
	}
	if err := r.begin(ctx, stdio, nil, r.Conn.Reside); err != nil {
		return nil, r.notStarted(ctx, err)
	}
	s.session.hear(r.gate)
	if l, ok := r.process.(interface{ Report(func(shared.Event)) }); ok {
		l.Report(s.session.emit)
	}
	return r, nil
}

// hear has the gate of a new pid 1 heard, by the commands that run, or else for the next one.
func (k *persistentSession) hear(gate Gate) {
	k.mu.Lock()
	defer k.mu.Unlock()
	idle := k.pending != nil
	if k.gate = gate; idle {
		k.deaf()
		k.deaf = k.hearing(k.keepEvent())
	}
}

// hearing has emit told of what passes the gate, which is not known of which command it is.
func (k *persistentSession) hearing(emit func(shared.Event)) (stop func()) {
	if k.gate == nil {
		return func() {}
	}
	return k.gate.Hear(emit, true)
}

// listenIdly keeps what happens for the next command, if none runs.
func (k *persistentSession) listenIdly() {
	if k.pending == nil && len(k.listeners) == 0 {
		k.pending = newEvents()
		k.deaf = k.hearing(k.keepEvent())
	}
}

// keepEvent keeps what has happened. What each command is told of its network is not that.
func (k *persistentSession) keepEvent() func(shared.Event) {
	pending := k.pending
	return func(e shared.Event) {
		if e.Kind == shared.EventNetwork {
			pending.send(e)
		}
	}
}

// awake gives what was kept, and keeps nothing more.
func (k *persistentSession) awake() (list []shared.Event) {
	if k.pending == nil {
		return nil
	}
	k.deaf()
	k.pending.close()
	for e := range k.pending.ch {
		list = append(list, e)
	}
	k.pending, k.deaf = nil, nil
	return list
}

// emit tells all commands that run.
func (k *persistentSession) emit(e shared.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for emit := range k.listeners {
		(*emit)(e)
	}
	if k.pending != nil {
		k.pending.send(e)
	}
}

// DrainEvents is as of [shared.EventDrainer].
func (s *sandbox) DrainEvents() []shared.Event {
	if s.session == nil {
		return nil
	}
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	list := s.session.awake()
	s.session.listenIdly()
	return list
}

// listen has a command told until stop, and of what was told to none before. It hears what is
// refused while it runs, whoever has heard of the same before.
func (k *persistentSession) listen(emit func(shared.Event)) (stop func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	deaf := k.hearing(emit) // before the other is not any more, so that nothing is lost in between
	for _, e := range k.awake() {
		emit(e)
	}
	k.listeners[&emit] = true
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.listeners, &emit)
		k.listenIdly()
		deaf()
	}
}
