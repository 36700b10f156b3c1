package nsengine

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/internal/engine/cgroup"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/confine"
	"github.com/sbxhost/sbxhost/shared"
)

// ReportRooted reports if the kernel does not enforce [sandboxinit.Confinement.Rooted].
func ReportRooted(p *shared.Probe) {
	if confine.Rooted(nil, false) == nil {
		p.Degraded = append(p.Degraded, "a command can use descriptors of directories that a command of another workspace passes to it: only Linux 5.19 with Landlock prevents that")
	}
}

const probeTimeout = 30 * time.Second

// A Prober finds out whether an engine works here. It caches only success: somebody may repair a
// failure.
type Prober struct {
	mu     sync.Mutex
	probed shared.Probe
}

// Probe runs the smallest command in the engine's strictest sandbox. It always
// reports facts, and more adds others about an engine that works.
func (p *Prober) Probe(ctx context.Context, e shared.Engine, facts map[string]string, more func(context.Context, *shared.Probe)) (shared.Probe, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if kept := p.probed; kept.Ready {
		kept.Facts = maps.Clone(kept.Facts)
		return kept, nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	result := shared.Probe{Ready: true}
	if err := try(ctx, e); err != nil {
		result = shared.NotReady(err)
	}
	result.Facts = facts
	facts["kernel"] = content("/proc/sys/kernel/osrelease")
	if result.Ready {
		reportLimits(&result)
		more(ctx, &result)
	}
	if ctx.Err() != nil {
		return shared.Probe{}, ctx.Err()
	}
	if result.Ready {
		p.probed = result
		result.Facts = maps.Clone(facts)
	}
	return result, nil
}

func try(ctx context.Context, e shared.Engine) error {
	sandbox, err := e.Open(ctx, shared.Spec{Sandbox: "probe", BestEffort: true})
	if err != nil {
		return err
	}
	defer sandbox.Close(context.WithoutCancel(ctx))
	process, err := sandbox.Start(ctx, shared.Command{Args: []string{"/bin/sh", "-c", ":"}, Dir: "/", Timeout: probeTimeout}, shared.Stdio{})
	if err != nil {
		return err
	}
	result, err := process.Wait(ctx)
	if err == nil && !result.Status.Success() {
		err = errors.New("a command that does nothing failed inside: " + result.Status.String())
	}
	return err
}

// reportLimits reports what enforces each limit here, and which limits nothing can enforce.
func reportLimits(p *shared.Probe) {
	d := cgroup.Look().Decide(cgroup.Limits{Memory: 1, CPUs: 1, PIDs: 1})
	var unenforced []string
	for _, l := range [...]struct {
		name       string
		controller cgroup.Controller
	}{{"limits.memory", cgroup.Memory}, {"limits.cpus", cgroup.CPU}, {"limits.pids", cgroup.PIDs}} {
		p.Facts[l.name] = d.Mechanism(l.controller)
		if p.Facts[l.name] == "" {
			p.Facts[l.name] = "not enforced"
			unenforced = append(unenforced, l.name)
		}
	}
	if len(unenforced) > 0 {
		p.Degraded = append(p.Degraded, "no control group enforces "+strings.Join(unenforced, ", ")+": if required, they are refused")
	}
}
