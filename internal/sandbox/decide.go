//go:build unix

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// Route is how the commands of a definition run. The zero value is what the definition says.
type Route struct {
	Engine string // empty means the definition's
	// Unconfined says that a separate decision permits one command without its sandbox. The engine
	// is then one that does not isolate.
	Unconfined bool
}

// slot names the sandbox that is kept for a target and a route.
func (r Route) slot(t *Target) string {
	return fmt.Sprintf("%s\x00%s\x00%v\x00%s", t.Name, r.Engine, r.Unconfined, t.ImplicitKey)
}

// routes are the ways in which a command of a definition can run sandboxed.
func (p *Pool) routes(def *view.Definition) []Route {
	routes := []Route{{}} // the platform's, if none is named
	if !launch.IsAuto(def.Engine) {
		return routes
	}
	for _, engine := range p.Engines.Auto()[1:] {
		if engine == launch.PartialEngine && def.Isolation != view.IsolationBestEffort {
			continue
		}
		// Without an image, a declared docker has nothing to run.
		if engine != "docker" || p.Engines.Injected(engine) || len(def.Config) > 0 {
			routes = append(routes, Route{Engine: engine})
		}
	}
	return routes
}

// forRoute returns the definition for a route. The options of "auto" are docker's if docker is
// declared. Otherwise they are for each engine that "auto" may choose.
func (p *Pool) forRoute(d view.Definition, via Route) view.Definition {
	if via.Unconfined || launch.IsAuto(d.Engine) && via.Engine != "docker" && slices.Contains(p.Engines.Auto(), "docker") {
		d.Config = nil
	}
	return d
}

// Facts are what is known about a definition's commands before the engine's answer.
func (p *Pool) Facts(def view.Definition) policy.Facts {
	f := p.Policy
	f.Fallback = policy.Fallback(def.Fallback)
	f.Engine, f.EngineNamed = p.Engines.Resolve(def.Engine), !launch.IsAuto(def.Engine)
	if def.Filesystem == view.FilesystemHost {
		f.Filesystem = shared.FilesystemHost
	}
	f.Network = view.SpecNetwork(&def).Mode
	return f
}

// decide decides about the commands of a definition in an engine that may work. It returns a denial
// as an error.
func (p *Pool) decide(def view.Definition, info shared.Info, spec *shared.Spec) (policy.Decision, error) {
	f := p.Facts(def)
	f.Engine, f.State = info.Name, policy.EngineIsolates
	f.Losses = spec.Without(info.Features)
	for i := range f.Losses {
		if l := &f.Losses[i]; l.Feature == shared.FeatureRemap && l.Attribute == "workspace" {
			l.Attribute = "workdir" // only workdir moves it
		}
	}
	if info.Features.Has(shared.FeatureUnconfined) {
		// The engine must have the name that the definition's author wrote.
		f.State, f.EngineNamed = policy.EngineUnconfined, def.Engine == info.Name
	}
	d := policy.Decide(f)
	switch {
	case d.Outcome != policy.Denied:
		return d, nil
	case d.Rule == policy.RuleFeatureMissing:
		return d, &RuleError{d.Rule, shared.Refused(info.Name, f.Losses)}
	}
	hint := d.Hint
	if d.Rule == policy.RuleUnconfinedAuto && !launch.IsAuto(def.Engine) {
		hint = fmt.Sprintf("it is known here as %q, and calls itself %q: if you mean this engine, use its own name in its engine block or program, and in the definition", def.Engine, info.Name)
	}
	return d, &RuleError{d.Rule, &shared.Error{Kind: shared.ErrDenied, Attribute: "engine", Message: d.Reason, Hint: hint}}
}

// RuleError is the error of a definition that a rule of the policy denies.
type RuleError struct {
	Rule policy.Rule
	error
}

func (e *RuleError) Unwrap() error { return e.error }

// FirstUsable tries a definition's engines in their order, and returns the first result that is not
// shared.ErrUnusable: such an engine can work on this machine, or nobody knows. If all engines
// return ErrUnusable, the facts say so, and the error is that of the first engine.
//
// No other error leads to the next engine, or to a run without a sandbox: a command in another
// sandbox can use up processes, memory, descriptors or disk, or stop and kill an engine. After such
// a failure the command does not run.
func (p *Pool) FirstUsable(ctx context.Context, t *Target, facts *policy.Facts, try func(via Route, engine string) error) (first error) {
	for _, via := range p.routes(&t.Definition) {
		engine := p.Engines.Resolve(engineOf(t.Definition, via))
		err := try(via, engine)
		if errors.Is(err, shared.ErrUnsupported) {
			// An engine may refuse the definition before it has looked at the machine.
			if probe, probeErr := p.Probe(ctx, engine); probeErr == nil && probe.Unusable {
				err = notReady(t.Name, probe)
			}
		}
		if !errors.Is(err, shared.ErrUnusable) {
			if err != nil && first != nil {
				err = fmt.Errorf("%w; it was tried because engine %q does not work here: %s", err, facts.Engine, facts.Reason)
			}
			facts.State = policy.EngineUnknown
			return err
		}
		reason, fix := err.Error(), ""
		if e, ok := errors.AsType[*shared.Error](err); ok {
			reason, fix = e.Message, e.Hint
		}
		if first == nil {
			first = err
			facts.Engine, facts.State, facts.Reason, facts.Fix = engine, policy.EngineUnavailable, reason, fix
		} else {
			facts.Reason += fmt.Sprintf("; nor does engine %q: %s", engine, reason)
		}
	}
	if d := &t.Definition; launch.IsAuto(d.Engine) && d.Isolation != view.IsolationBestEffort && slices.Contains(p.Engines.Auto(), launch.PartialEngine) {
		facts.Fix += fmt.Sprintf("; or say isolation = %q, which also tries engine %q, which enforces less", view.IsolationBestEffort, launch.PartialEngine)
	}
	return first
}

// Ready returns the sandbox of a definition in an engine that works on this machine, or the facts
// and why no engine does. The caller must release it.
func (p *Pool) Ready(ctx context.Context, t Target) (opened *Handle, facts policy.Facts, err error) {
	facts = p.Facts(t.Definition)
	err = p.FirstUsable(ctx, &t, &facts, func(via Route, _ string) (err error) {
		if opened, err = p.Get(ctx, t, via); err != nil {
			return err
		}
		probe, err := opened.Engine.Probe(ctx)
		if err == nil && probe.Ready {
			return nil
		}
		if err != nil {
			err = &Error{Sandbox: t.Name, Err: opened.Engine.Lost(err)}
		} else {
			err = notReady(t.Name, probe)
		}
		opened.Release()
		opened = nil
		return err
	})
	return opened, facts, err
}

func notReady(sandbox string, probe shared.Probe) error {
	e := &shared.Error{Kind: shared.ErrUnavailable, Attribute: "engine", Message: probe.Reason, Hint: probe.Fix}
	if probe.Unusable {
		e.Kind = shared.ErrUnusable
	}
	return &Error{Sandbox: sandbox, Err: e}
}

// unconfinedEngine runs the commands that may run without their sandbox.
const unconfinedEngine = "noop"

// Unconfined returns what runs a command without its sandbox. The cause is why it has none, or nil.
func (p *Pool) Unconfined(ctx context.Context, t Target, cause error) (*Handle, error) {
	if e, ok := errors.AsType[*Error](cause); ok {
		cause = e.Err
	}
	opened, err := p.Get(ctx, t, Route{Engine: unconfinedEngine, Unconfined: true})
	if errors.Is(err, shared.ErrUnusable) {
		err = &Error{Sandbox: t.Name, Err: errors.New("this program has no engine that runs commands without a sandbox")}
	}
	if err == nil || cause == nil {
		return opened, err
	}
	return nil, &Error{Sandbox: t.Name, Err: fmt.Errorf("%w; nor can it run without a sandbox: %w", cause, err)}
}

// startTries is how often at most a sandbox is made for one command. While others do nothing but
// write git's configuration and make and remove worktrees, one start in three fails.
const startTries = 5

// Try opens the sandbox and calls start. A refusal of its engine can be about a file that somebody
// has removed or replaced meanwhile; an engine that crashed may not have received the request.
// Nothing has run then, and Try looks at the machine again.
func (p *Pool) Try(ctx context.Context, t Target, via Route, start func(*Handle) error) (err error) {
	for range startTries {
		var opened *Handle
		if opened, err = p.Get(ctx, t, via); err == nil {
			err = start(opened)
		}
		if _, ok := errors.AsType[*transient](err); !ok || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// transient is an engine's error that may not repeat.
type transient struct{ error }

func (e *transient) Unwrap() error { return e.error }

// MarkTransient returns hostErr, the host's error for an engine's error err. It marks hostErr if
// Try should try again.
func MarkTransient(err, hostErr error) error {
	// Not ErrUnavailable: further tries would make a shortage worse.
	if launch.NeverRequested(err) || errors.Is(err, shared.ErrInvalidSpec) || errors.Is(err, shared.ErrDenied) {
		return &transient{hostErr}
	}
	return hostErr
}

// Probe finds out whether an engine works on this machine. It starts the engine if necessary.
func (p *Pool) Probe(ctx context.Context, name string) (shared.Probe, error) {
	e, err := p.Engine(ctx, name)
	if err != nil {
		return shared.Probe{}, err
	}
	probe, err := e.Probe(ctx)
	return probe, e.Lost(err)
}
