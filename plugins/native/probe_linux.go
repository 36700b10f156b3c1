package native

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine/cgroup"
	"github.com/sbxhost/sbxhost/shared/mountplan"
)

const probeTimeout = 10 * time.Second

// probe starts a sandbox as any command would have it. Only success is kept:
// what failed may have been put right since.
func (e *engine) probe(ctx context.Context) (shared.Probe, error) {
	e.probing.Lock()
	defer e.probing.Unlock()
	if e.probed != nil {
		p := *e.probed
		p.Facts = maps.Clone(p.Facts)
		return p, nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	p := shared.Probe{Ready: true, Facts: map[string]string{"kernel": content("/proc/sys/kernel/osrelease")}}
	if err := e.try(ctx); ctx.Err() != nil {
		return shared.Probe{}, ctx.Err()
	} else if err != nil {
		p.Ready, p.Reason, p.Unusable = false, err.Error(), errors.Is(err, shared.ErrUnusable)
		if e, ok := errors.AsType[*shared.Error](err); ok {
			p.Reason, p.Fix = e.Message, e.Hint
		}
		return p, nil
	}
	if unheld := unheldLimits(p.Facts); len(unheld) > 0 {
		p.Degraded = []string{"no control group is to be had that would hold " + strings.Join(unheld, ", ") + ": required, they are refused"}
	}
	p.Facts["overlay"] = "works"
	if err := e.tryOverlay(ctx); ctx.Err() != nil {
		return shared.Probe{}, ctx.Err()
	} else if err != nil {
		p.Facts["overlay"] = err.Error()
		p.Degraded = append(p.Degraded, "overlays are read-only: "+err.Error())
	}
	kept := p
	kept.Facts = maps.Clone(p.Facts)
	e.probed = &kept
	return p, nil
}

// try runs the smallest command in the strictest sandbox.
func (e *engine) try(ctx context.Context) error {
	sandbox, err := e.Open(ctx, shared.Spec{Sandbox: "probe"})
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

// tryOverlay finds out whether a session can hold an overlay on the file system of
// temporary files.
func (e *engine) tryOverlay(ctx context.Context) error {
	dir, err := os.MkdirTemp("", shared.RuntimeDirPrefix)
	if err != nil {
		return err
	}
	defer func() {
		// The kernel leaves directories without any permission in the work directory.
		filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				os.Chmod(p, 0o700)
			}
			return nil
		})
		os.RemoveAll(dir)
	}()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	lower, state := dir+"/lower", dir+"/session"
	if err := errors.Join(os.Mkdir(lower, 0o700), os.Mkdir(state, 0o700)); err != nil {
		return err
	}
	s := &opened{engine: e, held: &mountplan.Held{}, spec: &shared.Spec{
		Session: shared.Session{Dir: state},
		Table:   []shared.Entry{{Source: lower, Path: "/overlay", Access: shared.Overlay, Degradable: true}},
	}}
	if err := s.join(ctx); err != nil {
		return err
	}
	defer s.leave()
	if reason := s.held.Overlay(lower); reason != "" {
		return errors.New(reason)
	}
	return nil
}

// unheldLimits are those that no command can be held to here; facts are told
// what holds the others.
func unheldLimits(facts map[string]string) (unheld []string) {
	host := cgroup.Look()
	host.Manager = nil // see cmdengine.Config.NoLauncher
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
