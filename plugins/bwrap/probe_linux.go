package bwrap

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine/cgroup"
)

// identity is what a probe's result holds for: this launcher file, on this boot.
type identity struct {
	path         string
	dev, ino     uint64
	mtime, ctime syscall.Timespec
	boot         string
}

const probeTimeout = 10 * time.Second

// probe starts a sandbox as any command would have it. Only success is kept:
// what failed may have been put right since.
func (e *engine) probe(ctx context.Context) (shared.Probe, error) {
	e.probing.Lock()
	defer e.probing.Unlock()

	launcher, err := locate("")
	if err != nil {
		return notReady(err), nil
	}
	id := identify(launcher)
	if p, ok := e.probed[id]; ok {
		p.Facts = maps.Clone(p.Facts)
		return p, nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	facts := launcherFacts(ctx, launcher)
	if err := e.try(ctx); err != nil {
		if ctx.Err() != nil {
			return shared.Probe{}, ctx.Err()
		}
		p := notReady(err)
		p.Facts = facts
		return p, nil
	}
	p := shared.Probe{Ready: true, Facts: facts}
	if unheld := unheldLimits(cgroup.Look(), facts); len(unheld) > 0 {
		p.Degraded = []string{"no control group is to be had that would hold " + strings.Join(unheld, ", ") + ": required, they are refused"}
	}
	if facts["bwrap --bind-fd"] == "no" {
		p.Degraded = append(p.Degraded, "sources of binds are handed over by path: one that is swapped between check and mount is found out, and no command runs")
	}
	e.probed = map[identity]shared.Probe{id: p}
	p.Facts = maps.Clone(facts)
	return p, nil
}

// try runs the smallest command in the strictest sandbox.
func (e *engine) try(ctx context.Context) error {
	sandbox, err := e.Open(ctx, shared.Spec{Sandbox: "probe"})
	if err != nil {
		return err
	}
	defer sandbox.Close(context.WithoutCancel(ctx))
	cmd := shared.Command{Args: []string{"/bin/sh", "-c", ":"}, Dir: "/", Timeout: probeTimeout}
	process, err := sandbox.Start(ctx, cmd, shared.Stdio{})
	if err != nil {
		return err
	}
	result, err := process.Wait(ctx)
	if err == nil && !result.Status.Success() {
		err = errors.New("a command that does nothing failed inside: " + result.Status.String())
	}
	return err
}

// unheldLimits are those that no command can be held to here; facts are told
// what holds the others.
func unheldLimits(host cgroup.Host, facts map[string]string) (unheld []string) {
	d := host.Decide(cgroup.Limits{Memory: 1, CPUs: 1, PIDs: 1})
	for _, l := range [...]struct {
		name       string
		controller cgroup.Controller
	}{{"limits.memory", cgroup.Memory}, {"limits.cpus", cgroup.CPU}, {"limits.pids", cgroup.PIDs}} {
		facts[l.name] = d.Mechanism(l.controller)
		if facts[l.name] == "" {
			facts[l.name] = "not held"
			unheld = append(unheld, l.name)
		}
	}
	return unheld
}

func notReady(err error) shared.Probe {
	p := shared.Probe{Reason: err.Error(), Unusable: errors.Is(err, shared.ErrUnusable)}
	if e, ok := errors.AsType[*shared.Error](err); ok {
		p.Reason, p.Fix = e.Message, e.Hint
	}
	return p
}

func identify(path string) identity {
	id := fileIdentity(path)
	id.boot = content("/proc/sys/kernel/random/boot_id")
	return id
}

// fileIdentity tells a file from one that has taken its place.
func fileIdentity(path string) identity {
	id := identity{path: path}
	var st syscall.Stat_t
	if syscall.Stat(path, &st) == nil {
		id.dev, id.ino, id.mtime, id.ctime = uint64(st.Dev), st.Ino, st.Mtim, st.Ctim
	}
	return id
}

// launcherFacts asks the launcher what it is. Its options tell what a later
// version of this engine could use.
func launcherFacts(ctx context.Context, launcher string) map[string]string {
	ask := func(arg string) string {
		cmd := exec.CommandContext(ctx, launcher, arg)
		cmd.Env = []string{}
		cmd.Dir = "/"
		var out bytes.Buffer
		cmd.Stdout = &out
		if cmd.Run() != nil {
			return ""
		}
		return out.String()
	}
	version := strings.TrimPrefix(strings.TrimSpace(ask("--version")), "bubblewrap ")
	facts := map[string]string{"bwrap": strings.TrimSpace(launcher + " " + version)}
	help := ask("--help")
	for _, option := range [...]string{"--bind-fd", "--disable-userns", "--size"} {
		have := "no"
		if strings.Contains(help, option+" ") {
			have = "yes"
		}
		facts["bwrap "+option] = have
	}
	facts["kernel"] = content("/proc/sys/kernel/osrelease")
	return facts
}

// lookAtKernel gathers what a diagnosis needs.
func lookAtKernel() kernel {
	k := kernel{
		unprivilegedClone: content("/proc/sys/kernel/unprivileged_userns_clone"),
		maxNamespaces:     content("/proc/sys/user/max_user_namespaces"),
		apparmorRestrict:  content("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
		root:              os.Geteuid() == 0,
	}
	for _, mark := range [...]string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Lstat(mark); err == nil {
			k.container = true
		}
	}
	return k
}

func content(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}
