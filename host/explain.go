package host

import (
	"github.com/sbxhost/sbxhost/shared"
)

// Explanation says what running a command would do and why.
type Explanation struct {
	Sandbox  string
	Engine   string
	Source   string // where the engine came from
	Decision string
	Rule     string
	Spec     shared.Spec
	Command  shared.Command // its Env has the values; show Env instead
	Env      []EnvVar
	Plan     shared.Plan
}

// Explain says exactly what Start would do, and runs nothing but the engine.
func (c *Cmd) Explain() (*Explanation, error) {
	opened, err := c.host.sandbox(c.ctx, c.sandbox)
	if err != nil {
		return nil, err
	}
	command, origins, err := c.command(opened)
	if err != nil {
		return nil, &SandboxError{Sandbox: opened.name, Err: err}
	}
	plan, err := opened.Plan(c.ctx, command)
	if err != nil {
		return nil, &SandboxError{Sandbox: opened.name, Err: opened.engine.lost(err)}
	}
	return &Explanation{
		Sandbox: opened.name, Engine: opened.engine.info.Name, Source: opened.engine.source,
		Decision: opened.decision.outcome, Rule: opened.decision.rule,
		Spec: opened.resolved.spec, Command: command, Env: origins, Plan: plan,
	}, nil
}
