package docker

import (
	"context"

	"github.com/sbxhost/sbxhost/internal/engine/gated"
	"github.com/sbxhost/sbxhost/shared"
)

// Probe asks the daemon for its facts. It starts no container: only a definition has an image.
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
		return shared.NotReady(err), nil
	}
	p := shared.Probe{Ready: true, Degraded: []string{gated.ByProxy}, Facts: map[string]string{
		"daemon": d.Facts.Version, "socket": d.Endpoint.Socket + " (" + d.Endpoint.Origin + ")",
		"api": d.Client.ClientVersion(), "cgroup": d.Facts.Cgroup,
	}}
	if d.Facts.Rootless {
		p.Facts["rootless"] = "yes"
	}
	for _, limit := range []string{"memory", "cpus", "pids"} {
		if !d.Facts.Limits[limit] {
			p.Degraded = append(p.Degraded, "limits."+limit+" cannot be enforced by the daemon: "+d.Facts.Lacks())
		}
	}
	return p, nil
}
