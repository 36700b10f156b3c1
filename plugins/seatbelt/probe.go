package seatbelt

import (
	"context"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/internal/engine/gated"
	"github.com/sbxhost/sbxhost/shared"
)

// probe tries the engine.
func (e *engine) probe(ctx context.Context) (shared.Probe, error) {
	err := e.works(ctx)
	if ctx.Err() != nil {
		return shared.Probe{}, ctx.Err()
	}
	if err != nil {
		return shared.NotReady(err), nil
	}
	return shared.Probe{
		Ready:    true,
		Degraded: []string{"a process that leaves the command's process group outlives it, still confined", "only the timeout is enforced, and no other limit", gated.ByProxy, "HOME is a private directory at another path than the real one"},
		Facts:    map[string]string{"sandbox-exec": e.platform.launcher},
	}, nil
}

// works finds out with a trial: the launcher is the system's, it applies a profile that allows
// everything, which it cannot do inside another sandbox, and it loads one of ours.
func (e *engine) works(ctx context.Context) error {
	if err := e.platform.check(); err != nil {
		return err
	}
	if err := e.run(ctx, []string{"-p", "(version 1)(allow default)", "--", "/usr/bin/true"}); err != nil {
		return err
	}
	return e.open(ctx, &shared.Spec{})
}

// diagnose explains what sandbox-exec wrote before it gave up.
func diagnose(stderr string, err error) error {
	line := strings.TrimSpace(stderr)
	x := &shared.Error{Kind: shared.ErrUnavailable, Attribute: "engine"}
	switch {
	case strings.Contains(line, "sandbox_apply") && strings.Contains(line, "not permitted"):
		if line == "sandbox-exec: sandbox_apply: Operation not permitted" { // the whole line: a path in it could contain the same text
			x.Kind = shared.ErrUnusable
		}
		x.Message = "this process is in a sandbox already, and macOS does not nest them"
		x.Hint = "run sbxhost outside of it: not from a sandboxed program, nor from a build that sandboxes its steps"
	case strings.Contains(line, "exceeds maximum"):
		x.Kind, x.Attribute = shared.ErrUnsupported, "deny_paths"
		x.Message = "the profile has more paths and patterns than macOS accepts: " + strconv.Quote(line)
		x.Hint = "name directories rather than files, in bind_paths and deny_paths"
	case line == "":
		x.Message = "sandbox-exec: " + err.Error()
	default:
		x.Message = "sandbox-exec rejects the profile: " + strconv.Quote(line)
		x.Hint = "report this with the version of macOS; `sbxhost explain` shows the profile"
	}
	return x
}
