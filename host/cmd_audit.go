//go:build unix

package host

import (
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/sbxhost/sbxhost/internal/audit"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/shared"
)

// recordDecision records the decision on a command that does not run.
func (c *Cmd) recordDecision(sandbox, engine string, d policy.Decision) {
	c.change(func(r *Report) {
		r.Sandbox, r.Engine, r.Decision, r.Rule, r.Reason = sandbox, engine, d.Outcome.String(), string(d.Rule), d.Reason
	})
}

// record has the fields that all lines on the command share.
func (c *Cmd) record(event audit.Event) audit.Record {
	if c.auditID == "" {
		c.auditID = rand.Text()
	}
	report := c.Report()
	r := c.host.record(event, c.auditID, report.Sandbox, report.Engine)
	r.Program = (*audit.Program)(report.EngineProgram)
	return r
}

// logDecision logs that the command is about to run. After an error it must not run.
func (c *Cmd) logDecision(d policy.Decision, dir string) error {
	if !c.host.audits() {
		return nil
	}
	r := c.record(audit.EventDecision)
	r.Dir, r.Argv, r.Script = dir, c.Args, c.Script
	r.Decision, r.Rule, r.Reason = d.Outcome.String(), string(d.Rule), d.Reason
	err := c.host.appendRecord(r)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNotRecorded):
		return fmt.Errorf("%w, and nothing runs unrecorded: %w", shared.ErrDenied, err)
	default:
		return &shared.Error{Kind: shared.ErrDenied, Attribute: "audit.path", Message: err.Error(),
			Hint: "nothing runs unlogged; make room, or log elsewhere; in Go, this is Options.AuditLog"}
	}
}

// logRefusal logs that the command does not run.
func (c *Cmd) logRefusal(refusal error) {
	if c.host == nil || !c.host.audits() {
		return
	}
	r := c.record(audit.EventEnd)
	allowed := c.announced()
	c.mu.Lock()
	decision, rule, _ := c.denial(refusal)
	c.mu.Unlock()
	if allowed { // it failed to start
		addEnd(&r, endOf(nil, refusal))
	} else {
		r.Event, r.Dir, r.Argv, r.Script = audit.EventDecision, c.Dir, c.Args, c.Script
		if dir, err := c.host.machine.HostDir(c.Dir, c.callerDir()); err == nil {
			r.Dir = dir
		}
		r.Decision, r.Rule, r.Reason = decision, rule, refusal.Error()
	}
	if err := c.host.appendRecord(r); err != nil {
		c.change(func(r *Report) {
			r.Degraded = append(r.Degraded, fmt.Sprintf("the refusal is not logged: %v", err))
		})
	}
}

// logEnd logs the command's end, or returns why it could not.
func (c *Cmd) logEnd(result *shared.Result, failure error) (unlogged string) {
	if !c.host.audits() {
		return ""
	}
	r := c.record(audit.EventEnd)
	addEnd(&r, endOf(result, failure))
	r.Network = c.Report().Network
	if result != nil {
		r.DurationMS = new(result.Duration.Milliseconds())
	}
	if err := c.host.appendRecord(r); err != nil {
		// The command has run, so this is no error, but its caller must know.
		return fmt.Sprintf("the command's end is not logged: %v", err)
	}
	return ""
}

// addEnd adds to the record how the command ended.
func addEnd(r *audit.Record, e End) {
	r.Outcome, r.ExitCode, r.Error = e.Outcome, e.ExitCode, e.Error
	if e.SignalNumber != nil {
		r.Signal = *e.SignalNumber
	}
	if e.Error != "" {
		r.Status = e.Status
	}
}
