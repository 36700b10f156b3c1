//go:build unix

package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/sbxhost/sbxhost/host/facts"
	"github.com/sbxhost/sbxhost/host/launch"
	"github.com/sbxhost/sbxhost/host/session"
	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/policy"
	"github.com/sbxhost/sbxhost/review"
	"github.com/sbxhost/sbxhost/shared"
)

// sandboxSlot holds the opened sandbox of one definition.
type sandboxSlot struct {
	lock    launch.Lock
	current *openSandbox   // guarded by lock, as are the next two
	retired []*openSandbox // what others took the place of, while commands run in them
	dropped bool           // it is no slot any more
	late    bool           // of a definition that New was not given
	used    uint64         // when it was used last, by Host.uses; guarded by Host.mu
}

// maxLate is how many sandboxes stay open that New was not given the definition of and in
// which nothing runs.
const maxLate = 16

// slot gives the slot of a target, with its lock held.
func (h *Host) slot(ctx context.Context, t *target, via route) (*sandboxSlot, error) {
	key := via.slot(t)
	for {
		h.mu.Lock()
		if h.closed {
			h.mu.Unlock()
			return nil, ErrClosed
		}
		slot := h.sandboxes[key]
		var idle []*openSandbox
		if slot == nil {
			slot = &sandboxSlot{lock: launch.NewLock(), late: t.late != ""}
			h.sandboxes[key] = slot
		}
		h.uses++
		slot.used = h.uses
		if slot.late {
			idle = h.dropIdle()
			h.noteBinds(t.def.BindPaths)
		}
		h.mu.Unlock()
		for _, sb := range idle {
			if err := sb.close(ctx); err != nil {
				h.logger.Warn("a sandbox that is not used any more was not closed", "error", err)
			}
		}
		if err := slot.lock.Acquire(ctx); err != nil {
			return nil, err
		}
		if !slot.dropped {
			return slot, nil
		}
		slot.lock.Release()
	}
}

// dropIdle takes the sandbox out of its slot that was used longest ago of those of late
// definitions, where there are too many: who gets it closes it. h.mu is held.
func (h *Host) dropIdle() (idle []*openSandbox) {
	var late []string
	for key, slot := range h.sandboxes {
		if slot.late {
			late = append(late, key)
		}
	}
	slices.SortFunc(late, func(a, b string) int { return cmp.Compare(h.sandboxes[a].used, h.sandboxes[b].used) })
	for _, key := range late[:max(0, len(late)-maxLate)] {
		slot := h.sandboxes[key]
		select {
		case slot.lock <- struct{}{}:
		default:
			continue // somebody is about to use it
		}
		all := slot.retired
		if slot.current != nil {
			all = append(all, slot.current)
		}
		if !slices.ContainsFunc(all, func(sb *openSandbox) bool { return sb.running.Load() > 0 }) {
			delete(h.sandboxes, key)
			slot.dropped, slot.current, slot.retired = true, nil, nil
			idle = append(idle, all...)
		}
		slot.lock.Release()
	}
	return idle
}

// noteBinds notes what can be written from now on, by commands of a late definition. h.mu is
// held.
func (h *Host) noteBinds(binds []Bind) {
	for _, b := range binds {
		if b.Writable && !slices.Contains(h.lateBinds, b) {
			h.lateBinds = append(h.lateBinds, b)
		}
	}
}

// openSandbox is a definition opened in an engine.
type openSandbox struct {
	shared.Sandbox
	name     string
	def      Definition
	resolved *facts.Resolved
	engine   *launch.Engine
	decision policy.Decision
	lost     []shared.Event // what the engine does not hold and the definition does without
	running  *atomic.Int64  // commands, and whatever else holds it
	// releaseHeld gives up the places that are held for one command.
	releaseHeld func()
}

// release gives up what Host.sandbox gave. Nil is allowed.
func (sb *openSandbox) release() {
	if sb != nil {
		sb.releaseHeld()
		sb.running.Add(-1)
	}
}

// forCommand is sb for one command, with what was resolved for it.
func (sb *openSandbox) forCommand(now *facts.Resolved, releaseHeld func()) *openSandbox {
	sb.running.Add(1)
	one, r := *sb, *now
	one.releaseHeld, one.resolved = releaseHeld, &r
	r.Spec = sb.resolved.Spec
	if r.Spec.Unconfined {
		r.Notes = nil // they are about mounts
		if sb.decision.Rule == policy.RuleEngineNamed {
			r.Notes = sb.def.Unheld(sb.engine.Info.Name)
		}
	}
	return &one
}

// sandbox gives the opened sandbox of a definition, opening it if need be. The
// definition is resolved for each command: a bind that has come to exist, or a
// repository that was made or moved, counts from the next one on. The caller
// must release what it gets.
func (h *Host) sandbox(ctx context.Context, t target, via route) (_ *openSandbox, err error) {
	if h.options.EnginesOnly {
		return nil, errEnginesOnly
	}
	defer func() { err = view.BlameCommand(err, &t.def, t.own) }()
	name, def := t.name, forRoute(t.def, via)
	slot, err := h.slot(ctx, &t, via)
	if err != nil {
		return nil, err
	}
	defer slot.lock.Release()
	engine := func() (*launch.Engine, error) { return h.engine(ctx, cmp.Or(via.engine, def.Engine)) }
	if slot.current == nil {
		var cancel func()
		engine, cancel = h.engineAhead(ctx, cmp.Or(via.engine, def.Engine))
		defer cancel()
	}
	resolved, err := h.resolve(ctx, name, def, via.unconfined)
	if err != nil {
		return nil, err
	}
	setStage(ctx, "it waited for the lock of what holds the places of missing paths")
	held, err := h.machine.Hold(ctx, resolved)
	if err != nil {
		return nil, &SandboxError{Sandbox: name, Err: err}
	}
	releaseHeld := func() { h.linger.GiveUp(via.slot(&t), held) }
	if sb := slot.current; sb != nil {
		setStage(ctx, "engine %q answered", sb.engine.Info.Name)
		usable, err := sb.engine.Usable(ctx)
		switch {
		case err != nil:
			held.Release()
			return nil, err
		case usable && slices.Equal(sb.resolved.Spec.Table, resolved.Spec.Table):
			return sb.forCommand(resolved, releaseHeld), nil
		case usable:
			slot.retired = append(slot.retired, sb)
			slot.current = nil
		}
	}
	opened, err := h.open(ctx, name, def, resolved, via, engine)
	if err != nil {
		held.Release()
		return nil, &SandboxError{Sandbox: name, Err: err}
	}
	if h.isClosed() { // Close may not have waited for us
		held.Release()
		opened.close(context.Background())
		return nil, ErrClosed
	}
	slot.current = opened
	// Not before: what an engine keeps for a session can go with its last sandbox.
	slot.closeRetired(ctx, false)
	return opened.forCommand(resolved, releaseHeld), nil
}

// resolve resolves a definition in the Host's session.
func (h *Host) resolve(ctx context.Context, name string, def Definition, unconfined bool) (*facts.Resolved, error) {
	request := facts.Request{Name: name, Definition: def, Unisolated: unconfined || h.engines.Unconfined(def.Engine)}
	setStage(ctx, "it waited for the lock of its session")
	for write := false; ; write = true {
		state, err := h.session.Get(ctx, session.Reach(&def), write || def.Review == NewReview)
		if err != nil {
			return nil, err
		}
		if request.Session = state.Session; !request.Unisolated {
			request.SessionHome = state.Home // elsewhere it is the caller's
		}
		var reviewed *review.Use
		if def.Review != "" && def.Review != NewReview { // that is for who only asks what would be
			if reviewed, err = h.joinReview(ctx, name, &def); err != nil {
				return nil, &SandboxError{Sandbox: name, Err: err}
			}
			request.Session.Dir, request.Session.ID = reviewed.Dir, reviewID(reviewed.Dir)
		}
		setStage(ctx, "the workspace was searched")
		out, err := h.machine.Resolve(ctx, request)
		if err == nil && out.WantsSession && !write {
			continue // one that is made on demand
		}
		if err == nil {
			err = session.Prepare(&out.Spec)
		}
		if err == nil && reviewed != nil {
			err = addLayers(ctx, reviewed, &out.Spec)
		}
		if err != nil {
			return nil, &SandboxError{Sandbox: name, Err: err}
		}
		if state.Note != "" {
			out.Notes = append(out.Notes, state.Note)
		}
		return out, nil
	}
}

func (h *Host) open(ctx context.Context, name string, def Definition, resolved *facts.Resolved, via route, started func() (*launch.Engine, error)) (*openSandbox, error) {
	setStage(ctx, "engine %q was started", h.engines.Resolve(cmp.Or(via.engine, def.Engine)))
	engine, err := started()
	if err != nil {
		return nil, err
	}
	var decided policy.Decision // denies: that of an unconfined route is made for each command
	if via.unconfined {
		// Who approves the run approves that no limit is held; events say so.
		resolved.Spec.Unconfined, resolved.Spec.Limits.BestEffort = true, true
		if err := shared.Refused(engine.Info.Name, resolved.Spec.Without(engine.Info.Features)); err != nil {
			return nil, err
		}
	} else {
		resolved.Spec.Unconfined = engine.Info.Features.Has(shared.FeatureUnconfined)
	}
	spec := resolved.Spec
	if !spec.Unconfined && !engine.Info.Features.Has(shared.FeatureRemap) {
		var notes []string
		spec, notes = resolved.AsHost()
		resolved.Notes = append(resolved.Notes, notes...)
	}
	if !engine.Info.Features.Has(shared.FeatureHidden) {
		// Nobody has asked for it, and nothing of the host shows there.
		spec.Table = slices.DeleteFunc(slices.Clone(spec.Table), func(e shared.Entry) bool { return e.Why == view.OriginAbove })
	}
	if def.Review != "" && (via.unconfined || !engine.Info.Features.Has(shared.FeatureOverlayKept)) {
		return nil, shared.Refused(engine.Info.Name, []shared.Loss{{Feature: shared.FeatureOverlayKept, Attribute: "review", What: "a review", Hint: "leave it out, or use another engine"}})
	}
	if !via.unconfined {
		if decided, err = h.decideEngine(def, engine.Info, &spec); err != nil {
			return nil, err
		}
	}
	setStage(ctx, "engine %q opened the sandbox", engine.Info.Name)
	spec.Prepare = !h.options.OneShot
	sandbox, err := engine.Open(ctx, spec)
	if err != nil && ctx.Err() != nil {
		engine.Doubt()
	}
	if err != nil {
		return nil, mayPass(err, engine.Lost(err))
	}
	if err := checkKept(def.Review, &spec); err != nil {
		sandbox.Close(ctx)
		return nil, err
	}
	var lost []shared.Event
	for _, l := range spec.Without(engine.Info.Features) {
		lost = append(lost, l.Event(engine.Info.Name))
	}
	return &openSandbox{Sandbox: sandbox, name: name, def: def, resolved: resolved, engine: engine, decision: decided, lost: lost,
		running: new(atomic.Int64)}, nil
}

// closeRetired closes the retired sandboxes that nobody uses; with all, those
// too whose commands it kills by that. Its caller holds the lock, under which
// alone somebody begins to use one.
func (s *sandboxSlot) closeRetired(ctx context.Context, all bool) error {
	var errs []error
	s.retired = slices.DeleteFunc(s.retired, func(sb *openSandbox) bool {
		if !all && sb.running.Load() > 0 {
			return false
		}
		errs = append(errs, sb.close(ctx))
		return true
	})
	return errors.Join(errs...)
}

// close closes a sandbox in its engine and kills what runs in it.
func (sb *openSandbox) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := sb.Sandbox.Close(ctx); err != nil && !errors.Is(err, shared.ErrEngineLost) {
		return fmt.Errorf("sandbox %q: %w", sb.name, err)
	}
	return nil
}

// engine gives a living engine of that name and starts it if need be.
func (h *Host) engine(ctx context.Context, name string) (*launch.Engine, error) {
	setStage(ctx, "engine %q was started", h.engines.Resolve(name))
	e, err := h.engines.Get(ctx, name)
	if errors.Is(err, launch.ErrClosed) {
		err = ErrClosed
	}
	return e, err
}

// EngineInfo gives what an engine says of itself, starting it if need be.
func (h *Host) EngineInfo(ctx context.Context, name string) (shared.Info, error) {
	e, err := h.engine(ctx, name)
	if err != nil {
		return shared.Info{}, err
	}
	return e.Info, nil
}

// EngineProbe finds out whether an engine works on this machine, starting it
// if need be.
func (h *Host) EngineProbe(ctx context.Context, name string) (shared.Probe, error) {
	e, err := h.engine(ctx, name)
	if err != nil {
		return shared.Probe{}, err
	}
	probe, err := e.Probe(ctx)
	return probe, e.Lost(err)
}

// engineAhead starts an engine beside its caller, who has a workspace to search
// meanwhile, and gives what waits for it. Who will not need it any more cancels.
func (h *Host) engineAhead(ctx context.Context, name string) (wait func() (*launch.Engine, error), cancel func()) {
	ctx, cancel = context.WithCancel(ctx)
	var e *launch.Engine
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		e, err = h.engine(ctx, name)
	}()
	runtime.Gosched() // it comes first: to wake another thread for it takes half a millisecond
	return func() (*launch.Engine, error) {
		<-done
		return e, err
	}, cancel
}
