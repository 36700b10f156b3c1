package docker

import (
	"fmt"

	"github.com/sbxhost/sbxhost/plugins/docker/internal/plan"
	"github.com/sbxhost/sbxhost/shared"
)

// notes report what a sandbox's commands get less than asked for, and what enforces its limits.
func notes(p *plan.Planner) []shared.Event {
	var out []shared.Event
	l := p.Limits
	degraded := func(attribute, format string, args ...any) {
		out = append(out, shared.Event{Kind: shared.EventDegraded, Message: attribute + ": " + fmt.Sprintf(format, args...),
			Details: map[string]string{"attribute": attribute}})
	}
	for _, c := range p.Options.CapAdd {
		degraded("config.cap_add", "commands that run as root inside have %s", c)
	}
	if p.Options.WritableRoot {
		degraded("config.writable_root", "no limit bounds the disk space of what commands write to the container's own files")
	}
	if p.Daemon.Rootless {
		degraded("engine", "the daemon is rootless: the caller is root inside, without its privileges, and nobody else on the host")
	}
	if !p.Daemon.Limits["pids"] {
		degraded("limits.pids", "nothing bounds how many processes commands start, since the daemon cannot: %s", p.Daemon.Lacks())
	}
	cgroup := "cgroup"
	if p.Daemon.Cgroup != "" {
		cgroup += " v" + p.Daemon.Cgroup
	}
	for _, limit := range []struct {
		name, mechanism, note string
		set                   bool
	}{
		{"memory", cgroup, "", l.Memory > 0},
		{"cpus", cgroup, "", l.CPUs > 0},
		{"pids", cgroup, fmt.Sprintf(", with room for %d threads of the init", plan.InitThreads), l.PIDs > 0},
		{"open_files", "RLIMIT_NOFILE", "", l.OpenFiles > 0},
		{"temp_size", "the size of each tmpfs", "", l.TempSize > 0},
	} {
		if limit.set {
			e := shared.LimitEvent(limit.name, limit.mechanism, "enforced")
			e.Message += limit.note
			out = append(out, e)
		}
	}
	return out
}
