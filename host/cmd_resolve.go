//go:build unix

package host

import (
	"cmp"
	"context"
	"slices"

	"github.com/sbxhost/sbxhost/internal/env"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/internal/sandbox"
	"github.com/sbxhost/sbxhost/shared"
)

// resolveTarget returns the sandbox that the command asks for, and the facts for the policy that
// need no engine. After an error the sandbox may have a name.
func (c *Cmd) resolveTarget() (t sandbox.Target, facts policy.Facts, err error) {
	if t, err = c.target(); err != nil {
		return t, facts, err
	}
	facts = c.host.pool.Facts(t.Definition)
	facts.Bypass = c.NoSandbox
	return t, facts, nil
}

// opening is the context for opening a sandbox: the command's events report the engine's progress.
func (c *Cmd) opening(ctx context.Context) context.Context {
	if c.Events == nil {
		return ctx
	}
	return shared.WithProgress(ctx, c.event)
}

// command resolves the request. With planning it executes no program.
func (c *Cmd) command(ctx context.Context, opened *sandbox.Handle, planning bool) (shared.Command, []env.Var, error) {
	dir, err := c.host.machine.Workdir(opened.Resolution, c.Dir, c.callerDir())
	if err != nil {
		return shared.Command{}, nil, err
	}
	in, notes := c.host.machine.EnvInput(ctx, opened.Resolution, &opened.Definition, c.callerEnviron(), planning)
	in.Root = in.Root && opened.Engine.Info.Features.Has(shared.FeatureKernelFiltered)
	in.Command, c.environmentNotes = c.Env, notes
	entries, origins, err := env.Compute(in)
	if err != nil {
		return shared.Command{}, nil, err
	}
	command := shared.Command{Args: c.Args, Script: c.Script, Env: entries, Dir: dir, TTY: c.TTY, Trace: c.Trace,
		Timeout: c.timeLimit(), Grace: cmp.Or(opened.Definition.Limits.Grace, DefaultGrace)}
	need := func(wanted bool, feature shared.Feature, attribute, what string) error {
		if !wanted || opened.Engine.Info.Features.Has(feature) {
			return nil
		}
		return shared.Refused(opened.Engine.Info.Name, []shared.Loss{{Feature: feature, Attribute: attribute, What: what, Hint: "leave it out, or use another engine"}})
	}
	return command, origins, cmp.Or(need(c.TTY, shared.FeatureTTY, "TTY", "a terminal"),
		need(c.Trace, shared.FeatureTrace, "Trace", "a trace"), command.Validate())
}

// droppedFromPath says why directories of the caller's PATH are missing from the command's: they are
// in the workspace.
func (c *Cmd) droppedFromPath(environ []string, origins []EnvVar) map[string]string {
	if !slices.Contains(origins, EnvVar{Name: "PATH", Origin: env.OriginBuiltin}) {
		return nil
	}
	return c.host.caller.DroppedFromPath(environ, c.host.writable().Roots)
}
