package docker

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/mount"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

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
	for _, c := range p.options.capAdd {
		degraded("config.cap_add", "commands that run as root inside have %s", c)
	}
	if p.options.writableRoot {
		degraded("config.writable_root", "what commands write to the container's own files takes disk space without a limit")
	}
	switch {
	case lasts(p.spec, p.options):
		degraded("config.reuse", "commands share one container, its processes and its private directories, for as long as the session is there: until it is removed, or the container's options, binds, hidden or protected paths change")
	case p.options.reuse:
		degraded("config.reuse", "commands share one container, its processes and its private directories, for as long as the sandbox is open")
	}
	if p.options.compose != "" && p.network != "" {
		degraded("config.compose", "the services that %s depends on run as the Compose file says, outside of the sandbox's limits", p.options.service)
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

// argv shows a container as the words of Docker's, or Podman's, command line that would make
// one like it, for people: the engine itself speaks to the daemon.
func (p *plan) argv(at *ocispec.Platform) []string {
	c, h := &p.config, &p.host
	program := "docker"
	if p.podman {
		program = "podman"
	}
	words := []string{program, "run", "--rm", "--network", string(h.NetworkMode), "--user", c.User, "--workdir", c.WorkingDir,
		"--hostname", c.Hostname, "--log-driver", h.LogConfig.Type, "--no-healthcheck", "--ipc", string(h.IpcMode), "--cgroupns", string(h.CgroupnsMode)}
	add := func(name string, values ...string) {
		for _, v := range values {
			words = append(words, name, v)
		}
	}
	add("--cap-drop", h.CapDrop...)
	add("--cap-add", h.CapAdd...)
	add("--security-opt", h.SecurityOpt...)
	add("--group-add", h.GroupAdd...)
	if at != nil {
		add("--platform", strings.TrimSuffix(at.OS+"/"+at.Architecture+"/"+at.Variant, "/"))
	}
	if h.UsernsMode != "" {
		add("--userns", string(h.UsernsMode))
	}
	if h.ReadonlyRootfs {
		words = append(words, "--read-only")
	}
	if h.Memory > 0 {
		add("--memory", strconv.FormatInt(h.Memory, 10))
		add("--memory-swap", strconv.FormatInt(h.MemorySwap, 10))
	}
	if h.NanoCPUs > 0 {
		add("--cpus", strconv.FormatFloat(float64(h.NanoCPUs)/1e9, 'f', -1, 64))
	}
	if h.PidsLimit != nil {
		add("--pids-limit", strconv.FormatInt(*h.PidsLimit, 10))
	}
	add("--shm-size", strconv.FormatInt(h.ShmSize, 10))
	for _, op := range p.ops {
		if op.Op == "tmpfs" {
			add("--tmpfs", op.Destination+":"+h.Tmpfs[op.Destination])
		}
	}
	for _, m := range h.Mounts {
		words = append(words, "--mount", mountFlag(m))
	}
	add("--entrypoint", c.Entrypoint[0])
	return append(append(words, c.Image), c.Entrypoint[1:]...)
}

// mountFlag is a mount as a record of comma-separated values, which is how
// Docker's command line takes one.
func mountFlag(m mount.Mount) string {
	fields := []string{"type=" + string(m.Type), "source=" + m.Source, "target=" + m.Target}
	if m.ReadOnly {
		fields = append(fields, "readonly")
	}
	if m.BindOptions != nil {
		fields = append(fields, "bind-propagation="+string(m.BindOptions.Propagation))
		switch {
		case m.BindOptions.NonRecursive:
			fields = append(fields, "bind-nonrecursive")
		case m.BindOptions.ReadOnlyForceRecursive:
			fields = append(fields, "bind-recursive=readonly")
		}
	}
	if m.VolumeOptions != nil && m.VolumeOptions.NoCopy {
		fields = append(fields, "volume-nocopy")
	}
	for i, f := range fields {
		if strings.ContainsAny(f, ",\"\n") {
			fields[i] = `"` + strings.ReplaceAll(f, `"`, `""`) + `"`
		}
	}
	return strings.Join(fields, ",")
}
