package bwrap

import (
	"context"
	"strings"

	"github.com/sbxhost/sbxhost/internal/engine/nsengine"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/shared"
)

// probe asks the launcher for its version, and starts a sandbox like any command's.
func (e *engine) probe(ctx context.Context) (shared.Probe, error) {
	launcher, err := locate("")
	if err != nil {
		return shared.NotReady(err), nil
	}
	version, help := ask(ctx, launcher, "--version"), ask(ctx, launcher, "--help")
	if help != "" && !strings.Contains(help, "--bind-fd ") {
		return shared.Probe{Reason: "this bubblewrap is too old: it cannot bind by descriptor", Fix: fixOld, Unusable: true}, nil
	}
	facts := map[string]string{"bwrap": strings.TrimSpace(launcher + " " + strings.TrimPrefix(version, "bubblewrap "))}
	return e.prober.Probe(ctx, e, facts, func(_ context.Context, p *shared.Probe) { nsengine.ReportRooted(p) })
}

// ask returns the launcher's output.
func ask(ctx context.Context, launcher, arg string) string {
	program, err := hostpath.Installed(launcher)
	if err != nil {
		return ""
	}
	out, err := program.Command(ctx, arg).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
