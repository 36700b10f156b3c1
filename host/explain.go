package host

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sbxhost/sbxhost/shared"
)

// Explanation says what running a command would do and why.
type Explanation struct {
	Sandbox  string
	Engine   string
	Source   string // where the engine came from
	Decision string
	Rule     string
	Session  SessionReport
	Spec     shared.Spec
	Command  shared.Command // its Env has the values; show Env instead
	Env      []EnvVar
	Plan     shared.Plan
}

// Explain says exactly what Start would do, and runs nothing but the engine.
func (c *Cmd) Explain() (*Explanation, error) {
	if c.host == nil {
		return nil, errors.New("host: Cmd was not made by Host.Command")
	}
	c.host.lookUpIdentity()
	opened, err := c.host.sandbox(c.ctx, c.sandbox)
	if err != nil {
		return nil, err
	}
	defer opened.release()
	command, origins, err := c.command(opened, true)
	if err != nil {
		return nil, &SandboxError{Sandbox: opened.name, Err: err}
	}
	plan, err := opened.Plan(c.ctx, command)
	if err != nil {
		return nil, &SandboxError{Sandbox: opened.name, Err: opened.engine.lost(err)}
	}
	plan.Notes = slices.Concat(opened.resolved.notes, c.notes, opened.resolved.remarks(), c.dirNotes(opened), plan.Notes)
	return &Explanation{
		Sandbox: opened.name, Engine: opened.engine.info.Name, Source: opened.engine.source,
		Decision: opened.decision.outcome, Rule: opened.decision.rule,
		Session: c.host.sessionOf(opened), Spec: opened.resolved.spec, Command: command, Env: origins, Plan: plan,
	}, nil
}

// dirNotes says why a command runs elsewhere than where its caller is.
func (c *Cmd) dirNotes(opened *openSandbox) []string {
	if c.Dir != "" || opened.resolved.spec.Unconfined {
		return nil
	}
	if _, err := c.host.resolver.ws.ResolveDir(c.host.dir); err == nil {
		return nil
	}
	return []string{fmt.Sprintf("the current directory, %s, is not in the workspace, so the command runs in the workspace's root", c.host.dir)}
}
