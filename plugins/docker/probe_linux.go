package docker

import (
	"context"
	"errors"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/gated"
)

// Probe asks the daemon who it is. It starts no container: which image there is
// to start one from is for a definition to say.
func (e *engine) Probe(ctx context.Context) (shared.Probe, error) {
	d, err := e.daemon(ctx)
	if err == nil {
		file, locateErr := e.locateInit()
		if err = locateErr; err == nil {
			err = checkInit(file.Path)
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			return shared.Probe{}, ctx.Err()
		}
		p := shared.Probe{Reason: err.Error(), Unusable: errors.Is(err, shared.ErrUnusable)}
		if x, ok := errors.AsType[*shared.Error](err); ok {
			p.Reason, p.Fix = x.Message, x.Hint
		}
		return p, nil
	}
	p := shared.Probe{Ready: true, Degraded: []string{gated.ByProxy}, Facts: map[string]string{
		"daemon": d.facts.version, "socket": d.endpoint.socket + " (" + d.endpoint.origin + ")",
		"api": d.client.ClientVersion(), "cgroup": d.facts.cgroup,
	}}
	if d.facts.podman {
		p.Facts["daemon"] = "Podman " + d.facts.version
	}
	if d.facts.rootless {
		p.Facts["rootless"] = "yes"
	}
	for _, limit := range []struct {
		name string
		held bool
	}{{"memory", d.facts.limitsMemory}, {"cpus", d.facts.limitsCPUs}, {"pids", d.facts.limitsPIDs}} {
		if !limit.held {
			p.Degraded = append(p.Degraded, "limits."+limit.name+" cannot be held by the daemon: "+d.facts.lacks())
		}
	}
	return p, nil
}
