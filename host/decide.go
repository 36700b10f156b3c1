//go:build unix

package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/sbxhost/sbxhost/host/launch"
	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/policy"
	"github.com/sbxhost/sbxhost/shared"
)

// unconfinedEngine runs the commands that may run without their sandbox.
const unconfinedEngine = "noop"

// route is how the commands of a definition are run. The zero value is what
// the definition says.
type route struct {
	engine string // empty: the definition's
	// unconfined says that a decision of its own lets one command run without
	// its sandbox. The engine is then one that does not isolate.
	unconfined bool
}

// slot names the sandbox that is kept for a target and a route.
func (r route) slot(t *target) string {
	if r == (route{}) && t.late == "" {
		return t.name
	}
	return fmt.Sprintf("%s\x00%s\x00%v\x00%s", t.name, r.engine, r.unconfined, t.late)
}

// routes are the ways in which a command of a definition can run sandboxed.
func (h *Host) routes(def Definition) []route {
	routes := []route{{}} // the platform's, where it is not named
	if !launch.IsAuto(def.Engine) {
		return routes
	}
	for _, engine := range h.engines.Auto()[1:] {
		// Without an image there is nothing that a declared docker could run.
		if _, injected := h.options.Inject[engine]; engine != "docker" || injected || len(def.Config) > 0 {
			routes = append(routes, route{engine: engine})
		}
	}
	return routes
}

// forRoute is a definition as a route carries it out: what "auto" is given of
// options is docker's.
func forRoute(d Definition, via route) Definition {
	if launch.IsAuto(d.Engine) && via.engine != "docker" {
		d.Config = nil
	}
	return d
}

// facts are what is known before an engine was spoken to.
func (h *Host) facts(def Definition) (policy.Facts, error) {
	o := &h.options.Approvals
	fallback, err := policy.ParseFallback(string(def.Fallback))
	if err != nil {
		return policy.Facts{}, view.Invalid("fallback", err.Error(), "")
	}
	f := policy.Facts{
		Engine: h.engines.Resolve(def.Engine), Named: !launch.IsAuto(def.Engine), Fallback: fallback,
		AllowBypass: o.AllowBypass, Mode: o.Mode, ModeOrigin: o.ModeOrigin,
	}
	if def.Filesystem == FilesystemHost {
		f.Filesystem = shared.FilesystemHost
	}
	network, _ := def.SpecNetwork()
	f.Network = network.Mode
	return f, nil
}

// decideEngine decides about the commands of a definition in an engine that
// nothing is known against, and makes an error of what denies them.
func (h *Host) decideEngine(def Definition, info shared.Info, spec *shared.Spec) (policy.Decision, error) {
	f, err := h.facts(def)
	if err != nil {
		return policy.Decision{}, err
	}
	f.Engine, f.State = info.Name, policy.EngineIsolates
	f.Losses = spec.Without(info.Features)
	for i := range f.Losses {
		if l := &f.Losses[i]; l.Feature == shared.FeatureRemap && l.Attribute == "workspace" {
			l.Attribute = "workdir" // which alone moves it
		}
	}
	if info.Features.Has(shared.FeatureUnconfined) {
		// It must go by the name that the definition's author wrote.
		f.State, f.Named = policy.EngineUnconfined, def.Engine == info.Name
	}
	d := policy.Decide(f)
	switch {
	case d.Outcome != policy.Denied:
		return d, nil
	case d.Rule == policy.RuleFeatureMissing:
		return d, &ruleError{d.Rule, shared.Refused(info.Name, f.Losses)}
	}
	hint := d.Hint
	if d.Rule == policy.RuleUnconfinedAuto && !launch.IsAuto(def.Engine) {
		hint = fmt.Sprintf("it is known here as %q, and calls itself %q: have its engine block, or its program, and the definition name it so, if that is meant", def.Engine, info.Name)
	}
	return d, &ruleError{d.Rule, &shared.Error{Kind: shared.ErrDenied, Attribute: "engine", Message: d.Reason, Hint: hint}}
}

// ruleError is an error of a definition that a rule of the policy denies.
type ruleError struct {
	rule policy.Rule
	error
}

func (e *ruleError) Unwrap() error { return e.error }

// firstUsable tries the engines that a definition can run in, in their order, until
// one of them has not found that it cannot work on this machine; its error is given.
// Where all have, the facts say so, and the error is that of the first.
//
// Only shared.ErrUnusable leads on, to the next engine and to a run without a
// sandbox. A command in another sandbox can use up processes, memory, descriptors or
// disk, or stop and kill an engine; what fails by that is an error, and runs nowhere.
func (h *Host) firstUsable(ctx context.Context, name string, def Definition, facts *policy.Facts, try func(via route, engine string) error) (first error) {
	for _, via := range h.routes(def) {
		engine := h.engines.Resolve(def.Engine)
		if via.engine != "" {
			engine = via.engine
		}
		err := try(via, engine)
		if errors.Is(err, shared.ErrUnsupported) {
			// It may be refused before the engine has looked at the machine.
			if probe, probeErr := h.EngineProbe(ctx, engine); probeErr == nil && probe.Unusable {
				err = notReady(name, probe)
			}
		}
		if !errors.Is(err, shared.ErrUnusable) {
			if err != nil && first != nil {
				err = fmt.Errorf("%w; it was tried since engine %q does not work here: %s", err, facts.Engine, facts.Reason)
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
	return first
}

// ready gives the sandbox of a definition in an engine that works on this
// machine, and with an engine that does not, the facts and why. The caller must
// release it.
func (h *Host) ready(ctx context.Context, t target) (opened *openSandbox, facts policy.Facts, err error) {
	name, def := t.name, t.def
	if facts, err = h.facts(def); err != nil {
		return nil, facts, &SandboxError{Sandbox: name, Err: err}
	}
	err = h.firstUsable(ctx, name, def, &facts, func(via route, _ string) (err error) {
		if opened, err = h.sandbox(ctx, t, via); err != nil {
			return err
		}
		probe, err := opened.engine.Probe(ctx)
		if err == nil && probe.Ready {
			return nil
		}
		if err != nil {
			err = &SandboxError{Sandbox: name, Err: opened.engine.Lost(err)}
		} else {
			err = notReady(name, probe)
		}
		opened.release()
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
	return &SandboxError{Sandbox: sandbox, Err: e}
}
