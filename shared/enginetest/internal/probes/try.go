package probes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// Run tries the probe.
func (p *Probe) Run(ctx context.Context, k *scene.Kit) (scene.Status, string) {
	if p.Only != "" && p.Only != thisSystem {
		return scene.NotApplicable, "only on " + p.Only
	}
	if lacking := scene.Missing(k.Info.Features, p.Features); lacking != "" && !k.Unconfined() {
		return scene.Skipped, scene.NotClaimed + lacking
	}
	if p.ownNetwork && k.Info.Features.Has(shared.FeatureNetworkTranslated) {
		if p.grant == nil {
			return scene.NotApplicable, "the network that the engine grants is not the host's own"
		}
		outside := *p
		outside.grant = nil
		p = &outside
	}
	return k.InScene(ctx, p.Place(), p.ID, func(sc *scene.Scene) {
		t := p.Asked(sc)
		lacking := scene.Missing(k.Info.Features, Requires(p.Features, t))
		sc.Expect(lacking == "" || p.custom != nil && k.Unconfined(), scene.Skipped, "%s%s", scene.NotClaimed, lacking)
		if p.custom != nil {
			p.custom(sc)
		} else {
			p.try(sc, t)
		}
	})
}

// Asked returns the probe's trial in a scene.
func (p *Probe) Asked(s *scene.Scene) *scene.Trial {
	t := s.NewTrial()
	for _, path := range s.Words(p.show) {
		t.Show(path, shared.ReadOnly)
	}
	for _, path := range s.Words(p.hide) {
		t.Hide(path)
	}
	t.Act = s.Words(p.act)
	if p.trial != nil {
		p.trial(s, t)
	}
	return t
}

// Granted is Asked with the probe's grant.
func (p *Probe) Granted(s *scene.Scene) *scene.Trial {
	t := p.Asked(s)
	if p.grant != nil {
		p.grant(s, t)
	}
	return t
}

// try makes the attempt and then its control.
func (p *Probe) try(s *scene.Scene, t *scene.Trial) {
	unconfined := s.Kit.Unconfined()
	o := s.Attempt(t)
	status, detail := p.judge(s, o)
	if status == scene.Held && !p.Works && unconfined && p.Maybe {
		s.End(scene.NotApplicable, "not possible on this machine without a sandbox: %s", detail)
	}
	// An instruction that this machine does not have faults inside as well as outside.
	faulted := status == scene.Failed && p.Maybe && o.Faulted()
	if (status == scene.Held && (!unconfined || p.OfLimit()) || faulted) && !p.Works {
		// The control has a scene of its own: the attempt may have changed this one.
		status, detail = s.Kit.InScene(s.Ctx, p.Place(), p.ID+"c", func(fresh *scene.Scene) { p.checkControl(fresh, status, detail) })
	}
	s.End(status, "%s", detail)
}

// judge returns the meaning of an attempt, as far as it is known without a control.
func (p *Probe) judge(s *scene.Scene, o *scene.Outcome) (scene.Status, string) {
	if p.after != nil {
		if err := p.after(s); err != nil {
			return scene.Leaked, err.Error()
		}
	}
	refusal := errors.Is(o.Refused, shared.ErrInvalidSpec) || errors.Is(o.Refused, shared.ErrUnsupported) || errors.Is(o.Refused, shared.ErrDenied)
	switch {
	case o.Refused != nil && p.Refusal && refusal:
		return scene.Held, "refused: " + o.Refused.Error()
	case s.Kit.Unconfined() && refusal:
		return scene.Skipped, "the engine refuses: " + o.Refused.Error()
	case len(p.Features) > 0 && errors.Is(o.Refused, shared.ErrUnsupported):
		// It may hold a feature on some machines and refuse it on others.
		return scene.NotApplicable, "the engine refuses it on this machine: " + o.Refused.Error()
	case o.Refused != nil:
		return scene.Failed, "starting: " + o.Refused.Error()
	case o.Broke != nil:
		return scene.Failed, "waiting: " + o.Broke.Error()
	case o.Verdict.Kind == actor.Broken:
		return scene.Failed, fmt.Sprintf("%s (%v) stderr: %s", o.Output(), o.Status, scene.Tail(o.Stderr))
	case p.Works && o.Verdict.Kind == actor.Absent:
		return scene.NotApplicable, o.Output()
	case p.Works && o.Verdict.Kind != actor.Got:
		return scene.Failed, o.Output()
	case !p.Works && o.Verdict.Kind == actor.Got:
		return scene.Leaked, o.Output()
	}
	return scene.Held, o.Output()
}

// checkControl runs the control of an attempt with this status. The status counts if the control
// succeeds.
func (p *Probe) checkControl(s *scene.Scene, status scene.Status, detail string) {
	var v actor.Verdict
	t := p.Granted(s)
	if p.ControlGranted() {
		lacking := scene.Missing(s.Kit.Info.Features, Requires(p.Features, t))
		s.Needs(lacking == "", "held, and the engine does not claim what the control needs: %s", lacking)
		o := s.Attempt(t)
		v = o.Verdict
		if err := errors.Join(o.Refused, o.Broke); err != nil {
			v = actor.Verdict{Kind: actor.Broken, Detail: err.Error()}
		}
	} else {
		v = s.ActOutside(t, p.Privileged)
	}
	switch {
	case v.Kind == actor.Got:
		s.End(status, "%s", detail)
	case v.Kind == actor.Broken && status == scene.Held: // and not that both lack the instruction
		s.End(scene.ControlFailed, "the same action breaks where it is granted: %s", (&scene.Outcome{Verdict: v}).Output())
	case v.Kind == actor.Absent && p.ControlGranted():
		s.End(scene.NotApplicable, "held, and not possible where it is granted: %s", v.Detail)
	case p.Maybe || v.Kind == actor.Absent:
		s.End(scene.NotApplicable, "not possible on this machine without a sandbox either: %s", v.Detail)
	}
	s.End(scene.ControlFailed, "the same action fails where it is granted: %s", (&scene.Outcome{Verdict: v}).Output())
}

// Requires lists the features that the engine must claim for the trial, with features.
func Requires(features []shared.Feature, t *scene.Trial) []shared.Feature {
	var list []shared.Feature
	spec := t.Spec
	spec.BestEffort = true
	if spec.Unconfined {
		if slices.ContainsFunc(spec.Table, func(e shared.Entry) bool { return e.Access == shared.Hidden }) {
			list = append(list, shared.FeatureHidden)
		}
	} else {
		for _, l := range spec.Without(nil) {
			if !l.Accepted {
				list = append(list, l.Feature)
			}
		}
	}
	list = append(list, features...)
	if t.TTY {
		list = append(list, shared.FeatureTTY)
	}
	return list
}
