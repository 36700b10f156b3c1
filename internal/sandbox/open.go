//go:build unix

package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sbxhost/sbxhost/internal/facts"
	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/internal/review"
	"github.com/sbxhost/sbxhost/internal/session"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// Handle is a definition opened in an engine.
type Handle struct {
	shared.Sandbox
	Name         string
	Definition   view.Definition
	Resolution   *facts.Resolution
	Engine       *launch.Engine
	Decision     policy.Decision
	Lost         []shared.Event // what the engine cannot enforce and the definition accepts
	resolvedSpec shared.Spec    // the resolved one
	running      *atomic.Int64  // commands and other users
	onLateEvents func(*Handle, []shared.Event)
	processes    *sharedProcesses // nil if nothing goes on after a command
	// releaseHeld releases one command's stubs.
	releaseHeld func()
	// Ran says that the command may have made changes, and Reported that they were reported.
	Ran, Reported bool
}

// Release returns sb to the Pool. sb may be nil.
func (sb *Handle) Release() {
	if sb != nil {
		sb.releaseHeld()
		sb.running.Add(-1)
		sb.Resolution.End(sb.Ran, sb.Reported)
		sb.processes.leave(sb.Resolution)
	}
}

// forCommand is sb for one command, with what was resolved for it.
func (sb *Handle) forCommand(m *facts.Machine, def view.Definition, now *facts.Resolution, releaseHeld func(), k *sharedProcesses) *Handle {
	sb.running.Add(1)
	one, r := *sb, *now
	one.releaseHeld, one.Resolution, one.processes = releaseHeld, &r, k
	r.Spec, one.Definition = sb.Resolution.Spec, def
	m.Begin(&r)
	if r.Spec.Unconfined {
		r.Notes = nil // they are about mounts
		if d := &sb.Definition; sb.Decision.Rule == policy.RuleEngineNamed && (!d.Network.Host || d.ReadOnly || len(d.DenyPaths)+len(d.ProtectPaths) > 0) {
			r.Notes = []string{fmt.Sprintf("network, read_only, deny_paths and protect_paths are not promised: engine %q claims no isolation", sb.Engine.Info.Name)}
		}
	}
	return &one
}

// Get returns the opened sandbox of a definition. It resolves the definition for each command: a
// bind that has appeared, or a repository that was made or moved, counts from the next one on. The
// caller must release the result.
func (p *Pool) Get(ctx context.Context, t Target, via Route) (_ *Handle, err error) {
	if p.Session == nil {
		return nil, ErrNoWorkspace
	}
	defer func() { err = view.BlameCommand(err, &t.Definition, t.DefinitionBinds) }()
	name, def := t.Name, p.forRoute(t.Definition, via)
	if !t.Planning {
		if err := p.claim(ctx, &t, &def); err != nil {
			return nil, err
		}
	}
	k, err := p.enterProcesses(ctx, &t)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			k.leave(nil)
		}
	}()
	s, err := p.slot(ctx, &t, via)
	if err != nil {
		return nil, err
	}
	defer s.lock.Release()
	engine := func() (*launch.Engine, error) { return p.Engine(ctx, engineOf(def, via)) }
	if s.current == nil {
		var cancel func()
		engine, cancel = p.engineAhead(ctx, engineOf(def, via))
		defer cancel()
	}
	resolved, err := p.resolve(ctx, &t, def, via.Unconfined)
	if err != nil {
		return nil, err
	}
	k.carryOver(resolved)
	sb := s.current
	if sb != nil && !sb.Engine.Usable() {
		if k != nil { // a new engine cannot know
			lost := sb.Engine.Lost(shared.ErrEngineLost)
			resolved.Notes = append(resolved.Notes, fmt.Sprint("the session's processes ended, and new ones start: ", errors.Unwrap(lost)))
		}
		sb = nil
	}
	if def.Isolation == view.IsolationBestEffort { // full isolation refuses an engine without it
		var e *launch.Engine
		if sb != nil {
			e = sb.Engine
		} else {
			e, err = engine()
		}
		if err == nil && !e.Info.Features.Has(shared.FeatureNested) {
			err = resolved.LeaveUnprotected()
		}
		if err != nil {
			return nil, &Error{Sandbox: name, Err: err}
		}
	}
	SetStage(ctx, "the places of missing paths were held")
	held, err := p.Machine.Hold(ctx, resolved)
	if err != nil {
		return nil, &Error{Sandbox: name, Err: err}
	}
	releaseHeld := func() { p.linger.GiveUp(via.slot(&t), held) }
	if sb != nil {
		if sameSpec(sb.resolvedSpec, resolved.Spec) && (t.Planning || reflect.DeepEqual(sb.Resolution.Inject, resolved.Inject)) {
			return sb.forCommand(p.Machine, def, resolved, releaseHeld, k), nil
		}
		s.retired = append(s.retired, sb)
		s.current = nil
	}
	opened, err := p.open(ctx, name, def, resolved, via, engine)
	if err != nil {
		held.Release()
		return nil, &Error{Sandbox: name, Err: err}
	}
	if p.Life.Err() != nil { // Close may not have waited for us
		held.Release()
		opened.close(context.Background())
		return nil, session.ErrClosed
	}
	s.current = opened
	if k != nil { // what goes on after this command has the same table
		k.keep(s, held.Release)
		releaseHeld = func() {}
	}
	// Not earlier: what an engine keeps for a session can go with its last sandbox.
	s.closeRetired(ctx, false)
	return opened.forCommand(p.Machine, def, resolved, releaseHeld, k), nil
}

// sameSpec reports whether a sandbox opened for a can serve b. It compares all fields, not names or
// texts.
func sameSpec(a, b shared.Spec) bool {
	if !slices.Equal(a.Table, b.Table) { // first, because it is long
		return false
	}
	a.Table, b.Table = nil, nil
	return reflect.DeepEqual(a, b)
}

// resolve looks at the machine for a definition, in the Host's session or its review's.
func (p *Pool) resolve(ctx context.Context, t *Target, def view.Definition, unconfined bool) (*facts.Resolution, error) {
	name := t.Name
	request := facts.Request{Name: name, Planning: t.Planning, Definition: def, Unisolated: unconfined || p.Engines.Unconfined(def.Engine)}
	if p.Session.Each() && (def.Session.Processes || def.Review != "") {
		return nil, &Error{Sandbox: name, Err: session.ErrNoSession}
	}
	key := session.CredentialKey(&def, p.Machine.Sets())
	shares := def.Review == view.NewReview || def.Session.Processes
	for write := false; ; write = true {
		state, err := p.Session.Get(key, write || shares)
		if held, ok := errors.AsType[*session.InUseError](err); ok && t.Planning {
			state, err = p.Session.Plan(key, held)
		}
		if err != nil {
			return nil, err
		}
		if shares && state.ID == "" { // of a Host whose commands share nothing else
			state.ID = p.Session.SharedID(key)
		}
		if request.Session = state.Session; !request.Unisolated {
			request.SessionHome = state.Home // with an unnamed session it is the caller's
		}
		request.Session.Processes = def.Session.Processes
		var reviewed *review.Review
		if def.Review != "" && def.Review != view.NewReview { // NewReview is for plans
			if reviewed, err = p.joinReview(ctx, name, &def); err != nil {
				return nil, &Error{Sandbox: name, Err: err}
			}
			request.Session.Dir, request.Session.ID = reviewed.Dir(), session.ID(reviewed.Dir())
		}
		SetStage(ctx, "the workspace was searched")
		request.OnDemand = state.Dir == "" && !write
		out, err := p.Machine.Resolve(ctx, request)
		if errors.Is(err, facts.ErrWantsSession) {
			continue
		}
		if err == nil {
			err = session.Prepare(&out.Spec)
		}
		if err == nil && def.Review != "" {
			err = checkMounts(layers(&out.Spec))
		}
		if err == nil && reviewed != nil {
			err = addLayers(ctx, reviewed, out)
		}
		if err != nil {
			return nil, &Error{Sandbox: name, Err: err}
		}
		if state.Note != "" {
			out.Notes = append(out.Notes, state.Note)
		}
		return out, nil
	}
}

func (p *Pool) open(ctx context.Context, name string, def view.Definition, resolved *facts.Resolution, via Route, getEngine func() (*launch.Engine, error)) (*Handle, error) {
	SetStage(ctx, "engine %q was started", p.Engines.Resolve(engineOf(def, via)))
	engine, err := getEngine()
	if err != nil {
		return nil, err
	}
	has, resolvedSpec := engine.Info.Features.Has, resolved.Spec
	var decided policy.Decision // a denial; each command on an unconfined route gets its own decision
	if via.Unconfined {
		// The approval includes that no limit is enforced; events say so.
		resolved.Spec.Unconfined, resolved.Spec.Limits.BestEffort = true, true
		if err := shared.Refused(engine.Info.Name, resolved.Spec.Without(engine.Info.Features)); err != nil {
			return nil, err
		}
	} else {
		resolved.Spec.Unconfined = has(shared.FeatureUnconfined)
	}
	spec := resolved.Spec
	if !spec.Unconfined && !has(shared.FeatureRemap) {
		var notes []string
		spec, notes = resolved.AsHost()
		resolved.Notes = append(resolved.Notes, notes...)
	}
	spec.Table = slices.DeleteFunc(slices.Clone(spec.Table), func(e shared.Entry) bool {
		return e.Why == view.OriginParent && !has(shared.FeatureHidden) || // nobody asked for it, and nothing of the host shows there
			e.Why == view.OriginAccount && !has(shared.FeatureFilesystemHost) // the engine shows the users of an image
	})
	if def.Review != "" && via.Unconfined {
		return nil, &shared.Error{Kind: shared.ErrUnsupported, Attribute: "review", Message: "a command without a sandbox writes to the workspace itself, so it cannot have a review",
			Hint: "leave the review out, or run it in the sandbox"}
	}
	if def.Review != "" && !has(shared.FeatureOverlayKept) {
		return nil, shared.Refused(engine.Info.Name, []shared.Loss{{Feature: shared.FeatureOverlayKept, Attribute: "review", What: "a review", Hint: "leave it out, or use another engine"}})
	}
	if _, injected := view.SplitCredentials(&def, p.Machine.Sets()); injected != nil && !via.Unconfined && !has(shared.FeatureNetworkInject) {
		return nil, shared.Refused(engine.Info.Name, []shared.Loss{shared.InjectLoss})
	}
	spec.Network.Inject = resolved.Inject
	if !via.Unconfined {
		if decided, err = p.decide(def, engine.Info, &spec); err != nil {
			return nil, err
		}
	}
	SetStage(ctx, "engine %q opened the sandbox", engine.Info.Name)
	spec.Prepare = !p.OneShot
	sandbox, err := engine.Open(ctx, spec)
	if err != nil && ctx.Err() != nil {
		engine.Doubt()
	}
	if err != nil {
		return nil, MarkTransient(err, engine.Lost(err))
	}
	if def.Review != "" {
		if err := checkReviewPlace(&spec); err != nil {
			sandbox.Close(ctx)
			return nil, err
		}
	}
	var lost []shared.Event
	for _, l := range spec.Without(engine.Info.Features) {
		lost = append(lost, l.Event(engine.Info.Name))
	}
	return &Handle{Sandbox: sandbox, Name: name, Definition: def, Resolution: resolved, Engine: engine, Decision: decided, Lost: lost, resolvedSpec: resolvedSpec,
		onLateEvents: p.OnLateEvents, running: new(atomic.Int64)}, nil
}

// close closes a sandbox in its engine and kills what runs in it.
func (sb *Handle) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := sb.Sandbox.Close(ctx); err != nil && !errors.Is(err, shared.ErrEngineLost) {
		return fmt.Errorf("sandbox %q: %w", sb.Name, err)
	}
	if t, ok := sb.Sandbox.(shared.EventDrainer); ok {
		if events := t.DrainEvents(); len(events) > 0 {
			sb.onLateEvents(sb, events)
		}
	}
	return nil
}

// engineOf names the engine of a definition on a route.
func engineOf(def view.Definition, via Route) string { return cmp.Or(via.Engine, def.Engine) }

// Engine returns a living engine with that name. It starts one if necessary.
func (p *Pool) Engine(ctx context.Context, name string) (*launch.Engine, error) {
	SetStage(ctx, "engine %q was started", p.Engines.Resolve(name))
	e, err := p.Engines.Get(ctx, name)
	if errors.Is(err, launch.ErrClosed) {
		err = session.ErrClosed
	}
	return e, err
}

// engineAhead starts an engine while its caller searches a workspace. wait returns it; a caller
// that does not need it any more calls cancel.
func (p *Pool) engineAhead(ctx context.Context, name string) (wait func() (*launch.Engine, error), cancel func()) {
	ctx, cancel = context.WithCancel(ctx)
	wait = sync.OnceValues(func() (*launch.Engine, error) { return p.Engine(ctx, name) })
	go wait()
	runtime.Gosched() // start first: to wake another thread for it takes half a millisecond
	return wait, cancel
}
