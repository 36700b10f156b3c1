package docker

import (
	"fmt"
	"strconv"

	"github.com/sbxhost/sbxhost/shared"
)

// holdable refuses the limits that the daemon's machine cannot hold, or, with
// best effort, takes them out and says so.
func holdable(d daemonFacts, l *shared.Limits) ([]shared.Event, error) {
	var out []shared.Event
	for _, limit := range []struct {
		name string
		set  bool
		can  bool
		drop func()
	}{
		{"memory", l.Memory > 0, d.limitsMemory, func() { l.Memory = 0 }},
		{"cpus", l.CPUs > 0, d.limitsCPUs, func() { l.CPUs = 0 }},
		{"pids", l.PIDs > 0, d.limitsPIDs, func() { l.PIDs = 0 }},
	} {
		switch {
		case !limit.set || limit.can:
		case !l.BestEffort:
			return nil, &shared.Error{Kind: shared.ErrUnsupported, Attribute: "limits." + limit.name,
				Message: "the Docker daemon cannot hold it: " + d.lacks(),
				Hint:    `enable the controller, leave the limit out, or say enforce = "best_effort"`}
		default:
			limit.drop()
			out = append(out, limitEvent(limit.name, "", "not held"))
		}
	}
	return out, nil
}

// lacks says why a daemon cannot hold a limit.
func (d *daemonFacts) lacks() string {
	if d.rootless {
		return "it is rootless, and has the cgroup controller from systemd on cgroup v2 alone, where that delegates it"
	}
	return "its machine lacks the cgroup controller"
}

func limitEvent(name, mechanism, hold string) shared.Event {
	message := fmt.Sprintf("limits.%s is %s", name, hold)
	if mechanism != "" {
		message += " by " + mechanism
	}
	return shared.Event{Kind: shared.EventLimit, Message: message,
		Details: map[string]string{"limit": name, "mechanism": mechanism, "hold": hold}}
}

// notes tell what each command of a sandbox gets less of than was asked for, and
// what holds its limits.
func notes(p *planner) []shared.Event {
	var out []shared.Event
	l := p.limits
	degraded := func(attribute, format string, args ...any) {
		out = append(out, shared.Event{Kind: shared.EventDegraded, Message: attribute + ": " + fmt.Sprintf(format, args...),
			Details: map[string]string{"attribute": attribute}})
	}
	for _, c := range p.options.CapAdd {
		degraded("config.cap_add", "commands that run as root inside have %s", c)
	}
	if p.options.WritableRoot {
		degraded("config.writable_root", "what commands write to the container's own files takes disk space without a limit")
	}
	switch {
	case lasts(p.spec, p.options):
		degraded("config.reuse", "commands share one container, its processes and its private directories, for as long as the session is there: until it is removed, or the container's options, binds, hidden or protected paths change")
	case p.options.Reuse:
		degraded("config.reuse", "commands share one container, its processes and its private directories, for as long as the sandbox is open")
	}
	if p.options.Compose != "" && p.network != "" {
		degraded("config.compose", "the services that %s depends on run as the Compose file says, outside of the sandbox's limits", p.options.Service)
		if p.daemon.podman {
			degraded("config.compose", "services are reached by name only where Podman has its plugin for that: dnsname, or aardvark-dns with netavark")
		}
	}
	if p.daemon.rootless {
		degraded("engine", "the daemon is rootless: the caller is root inside, without its privileges, and nobody else on the host")
	}
	if !p.daemon.limitsPIDs {
		degraded("limits.pids", "nothing bounds how many processes commands start, since the daemon cannot: %s", p.daemon.lacks())
	}
	if p.daemon.podman && p.daemon.cgroup == "1" {
		degraded("engine", "the daemon is Podman on cgroup v1: commands see the names of their control groups on the host")
	}
	cgroup := "cgroup"
	if p.daemon.cgroup != "" {
		cgroup += " v" + p.daemon.cgroup
	}
	if l.Memory > 0 {
		out = append(out, limitEvent("memory", cgroup, "held"))
	}
	if l.CPUs > 0 {
		out = append(out, limitEvent("cpus", cgroup, "held"))
	}
	if l.PIDs > 0 {
		e := limitEvent("pids", cgroup, "held")
		e.Message += ", with room for " + strconv.Itoa(initThreads) + " threads of the init"
		out = append(out, e)
	}
	if l.OpenFiles > 0 {
		out = append(out, limitEvent("open_files", "RLIMIT_NOFILE", "held"))
	}
	if l.TempSize > 0 {
		out = append(out, limitEvent("temp_size", "the size of each tmpfs", "held"))
	}
	return out
}
