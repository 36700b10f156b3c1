//go:build unix

package host

import (
	"maps"
	"slices"

	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/internal/sandbox"
	"github.com/sbxhost/sbxhost/internal/session"
)

// Explain returns what Start would do. It starts nothing except the engine.
func (c *Cmd) Explain() (*Explanation, error) {
	opened, decision, err := c.explainRoute()
	if err != nil {
		return nil, err
	}
	defer opened.Release()
	command, origins, err := c.command(c.ctx, opened, true)
	if err != nil {
		return nil, &SandboxError{Sandbox: opened.Name, Err: err}
	}
	plan, err := opened.Plan(c.ctx, command)
	if err != nil {
		return nil, &SandboxError{Sandbox: opened.Name, Err: opened.Engine.Lost(err)}
	}
	var remarks []string
	if !opened.Resolution.Spec.Unconfined {
		remarks = opened.Resolution.Remarks
	}
	var lost []string
	for _, e := range opened.Lost {
		lost = append(lost, e.Message)
	}
	plan.Notes = slices.Concat(c.earlyNotes, lost, opened.Resolution.Notes, c.environmentNotes, remarks, slices.Sorted(maps.Values(c.droppedFromPath(command.Env, origins))), session.UnboundedNotes(&opened.Resolution.Spec), plan.Notes)
	return &Explanation{
		Sandbox: opened.Name, Engine: opened.Engine.Info.Name, Source: opened.Engine.Source,
		Decision: decision.Outcome.String(), Rule: string(decision.Rule), Reason: decision.Reason, Asks: decision.Ask,
		Exposure: list(decision.Exposure), Sensitive: list(decision.Sensitive),
		Session: c.host.sessionOf(opened), Spec: opened.Resolution.Spec, Command: command, Env: list(origins), Plan: plan,
	}, nil
}

// explainRoute decides like begin. It starts no command, asks nobody, and uses up no approval.
func (c *Cmd) explainRoute() (*sandbox.Handle, policy.Decision, error) {
	t, facts, err := c.resolveTarget()
	if err == nil && c.host.options.EnginesOnly {
		err = sandbox.ErrNoWorkspace
	}
	if err != nil {
		return nil, policy.Decision{}, err
	}
	t.Planning = true
	if t.Definition.Review != "" {
		t.Definition.Review = NewReview // a name that no review has yet
	}
	var cause error
	if !c.NoSandbox {
		var opened *sandbox.Handle
		if opened, facts, cause = c.host.pool.Ready(c.ctx, t); cause == nil {
			return opened, opened.Decision, nil
		} else if facts.State != policy.EngineUnavailable {
			return nil, policy.Decision{}, cause
		}
	}
	d := policy.Decide(facts)
	switch {
	case d.Rule == policy.RuleFallbackDeny:
		// A plan does not need a machine on which the engine works.
		opened, err := c.host.pool.Get(c.opening(c.ctx), t, sandbox.Route{})
		if err != nil {
			return nil, d, err
		}
		c.earlyNotes = append(c.earlyNotes, cause.Error()+"; nothing would run here")
		return opened, d, nil
	case d.Outcome == policy.Denied && !d.Ask:
		return nil, d, &DeniedError{Sandbox: t.Name, Decision: d, Err: cause}
	}
	opened, err := c.host.pool.Unconfined(c.opening(c.ctx), t, cause)
	if err != nil {
		return nil, d, err
	}
	facts.Sensitive = c.host.machine.SensitiveFiles()
	if d.Ask {
		request, err := c.request(c.ctx, opened)
		if err != nil {
			opened.Release()
			return nil, d, err
		}
		session, _ := c.host.approvalSession()
		found, err := c.host.store().Peek(request.key(), session)
		if err != nil {
			c.earlyNotes = append(c.earlyNotes, err.Error())
		}
		facts.Approval = approvalOf(found)
	}
	return opened, policy.Decide(facts), nil
}
