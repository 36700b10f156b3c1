//go:build unix

package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/internal/env"
	"github.com/sbxhost/sbxhost/internal/facts"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/internal/sandbox"
	"github.com/sbxhost/sbxhost/shared"
)

func (h *Host) sessionTTL() time.Duration {
	if ttl := h.options.Approvals.SessionTTL; ttl > 0 {
		return ttl
	}
	return approvals.DefaultTTL
}

// store is where approvals and findings are.
func (h *Host) store() *approvals.Store { return approvals.Open(h.options.Approvals.Dir) }

// approvalSession names the session that approvals belong to.
func (h *Host) approvalSession() (string, error) {
	if name := h.options.Approvals.Session; name != "" {
		return approvals.NamedSession(name), nil
	}
	return approvals.LoginSession()
}

func approvalOf(found *approvals.Approval) policy.Approval {
	if found == nil {
		return policy.NoApproval
	}
	return policy.Approval(found.Scope)
}

func (h *Host) approve(ctx context.Context, r *ApprovalRequest, scope approvals.Scope) error {
	session := ""
	if scope == approvals.Session {
		var err error
		if session, err = h.approvalSession(); err != nil {
			return err
		}
	}
	_, err := h.store().Add(ctx, r.key(), scope, session, h.sessionTTL(), r.Decision.Reason)
	return err
}

// Approve stores an approval for the command before its run. It runs nothing. It returns an error
// if no approval can permit the command.
func (c *Cmd) Approve(scope ApprovalScope) (ApprovalRequest, error) {
	t, facts, err := c.resolveTarget()
	if err != nil {
		return ApprovalRequest{}, err
	}
	name := t.Name
	// The engine may work now. The approval is for a time when it does not.
	if !c.NoSandbox {
		facts.State = policy.EngineUnavailable
	}
	d := policy.Decide(facts)
	switch {
	case d.Rule == policy.RuleFallbackDeny:
		return ApprovalRequest{}, &SandboxError{Sandbox: name, Err: &shared.Error{Kind: shared.ErrDenied, Attribute: "fallback",
			Message: "commands never run without this sandbox, approved or not", Hint: `fallback = "approve" lets them be approved`}}
	case d.Outcome == policy.Denied && !d.Ask:
		return ApprovalRequest{}, &DeniedError{Sandbox: name, Decision: d}
	case !d.Ask:
		return ApprovalRequest{}, fmt.Errorf("sandbox %q: no approval is needed: the mode of approvals = %q", name, facts.Mode.String())
	}
	t.Planning = true
	opened, err := c.host.pool.Unconfined(c.opening(c.ctx), t, nil)
	if err != nil {
		return ApprovalRequest{}, err
	}
	defer opened.Release()
	request, err := c.request(c.ctx, opened)
	if err != nil {
		return ApprovalRequest{}, err
	}
	request.Decision = d
	request.Decision.Reason = "approved before its run"
	return request, c.host.approve(c.ctx, &request, scope)
}

// ask finds out whether somebody has approved the command. Without a yes, it returns a
// *DeniedError.
func (c *Cmd) ask(ctx context.Context, opened *sandbox.Handle, facts policy.Facts) (policy.Decision, error) {
	request, err := c.request(ctx, opened)
	if err != nil {
		return policy.Decision{}, err
	}
	facts.Sensitive = c.host.machine.SensitiveFiles()
	request.Decision = policy.Decide(facts)
	denied := func(d policy.Decision, cause error) (policy.Decision, error) {
		return d, &DeniedError{Sandbox: opened.Name, Decision: d, Request: &request, Err: cause}
	}
	sandbox.SetStage(ctx, "approvals were looked up")
	session, _ := c.host.approvalSession() // without one, approvals for a session do not count
	found, problem := c.host.store().Find(ctx, request.key(), session)
	facts.Approval = approvalOf(found)
	if facts.Approval == policy.NoApproval {
		approver := c.host.options.Approver
		if approver == nil {
			return denied(request.Decision, problem)
		}
		if problem != nil {
			request.Warnings = append(request.Warnings, problem.Error())
		}
		sandbox.SetStage(ctx, "its approval was asked for")
		answer, err := approver(ctx, request)
		if err == nil {
			err = context.Cause(ctx) // a late answer does not count
		}
		if err != nil {
			if problem != nil {
				err = fmt.Errorf("%w; %w", err, problem)
			}
			return denied(request.Decision, err)
		}
		if answer == policy.NoApproval {
			answer = policy.Refused
		}
		facts.Approval = answer
		if answer == policy.ApprovedSession || answer == policy.ApprovedAlways {
			if err := c.host.approve(ctx, &request, approvals.Scope(answer)); err != nil {
				c.earlyNotes = append(c.earlyNotes, fmt.Sprintf("the approval holds for this command alone: %v", err))
			}
		}
	}
	d := policy.Decide(facts)
	if d.Outcome != policy.Unsandboxed {
		return denied(d, nil)
	}
	c.approvedDir = request.Dir
	return d, nil
}

// request describes the command for an approver.
func (c *Cmd) request(ctx context.Context, opened *sandbox.Handle) (ApprovalRequest, error) {
	command, _, err := c.command(ctx, opened, true)
	if err != nil {
		return ApprovalRequest{}, &SandboxError{Sandbox: opened.Name, Err: err}
	}
	r := ApprovalRequest{
		Sandbox: opened.Name, Args: c.Args, Script: c.Script, Dir: command.Dir, Workspace: c.host.Root(),
		SessionTTL: c.host.sessionTTL(), Remembers: c.host.options.Approvals.Dir != "",
		environ: env.Exact(c.Env, facts.NewEnvironment(c.callerEnviron()).Lookup), defined: env.Defined(&opened.Definition, c.host.credentials(), c.host.options.Workspace.Env),
	}
	if slices.Contains(c.environmentNotes, facts.MachinesTemp) {
		r.Warnings = append(r.Warnings, facts.MachinesTemp)
	}
	for _, entry := range r.environ {
		name, _, _ := strings.Cut(entry, "=")
		r.Env = append(r.Env, name)
	}
	return r, nil
}
