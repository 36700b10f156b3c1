package docker

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"sync"

	"github.com/sbxhost/sbxhost/internal/egress/gate"
	"github.com/sbxhost/sbxhost/internal/engine/gated"
	"github.com/sbxhost/sbxhost/internal/engine/mountplan"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/daemon"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/definition"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/image"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/plan"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/vessel"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

// A box is one opened Spec, with what makes its containers.
type box struct {
	engine *engine

	// Final after attach.
	daemon *daemon.Daemon
	plans  plan.Planner
	notes  []shared.Event
	// network passes connections between a container's own network and the host's; may be nil.
	network *gated.Network

	vessels sync.WaitGroup
}

// attach makes a box, after checks of the Spec's form and features.
func (e *engine) attach(ctx context.Context, spec *shared.Spec) (*cmdengine.Attachment, error) {
	b := &box{engine: e}
	if err := b.open(ctx, spec); err != nil {
		return nil, err
	}
	return &cmdengine.Attachment{Launch: b.launch, Plan: b.plan, Close: b.vessels.Wait,
		Events: func() []shared.Event { return b.notes }}, nil
}

func (b *box) open(ctx context.Context, spec *shared.Spec) error {
	o, err := definition.Parse(spec.Options)
	if err != nil {
		return err
	}
	if b.network, err = gated.Read(spec); err != nil {
		return err
	}
	initFile, err := b.engine.locateInit()
	if err != nil {
		return mountplan.Unavailable(err)
	}
	if err := checkInit(initFile.Path); err != nil {
		return err
	}
	if b.daemon, err = b.engine.daemon(ctx); err != nil {
		return err
	}
	limits := spec.Limits
	limitNotes, err := daemon.Holdable(b.daemon.Facts, &limits)
	if err != nil {
		return err
	}
	b.plans = plan.Planner{Spec: spec, Options: o, Limits: limits, Daemon: b.daemon.Facts, Memory: mountplan.Memory(), Self: self(),
		InitFile: initFile.Path, Labels: map[string]string{ownerLabel: strconv.Itoa(os.Getpid())}}
	if err := b.daemon.Facts.OwnedBy(b.plans.RunAs()); err != nil {
		return err
	}
	b.notes = append(b.notes, limitNotes...)
	if b.plans.Image, err = image.Fetch(ctx, b.daemon.Client, o); err != nil {
		return err
	}
	b.notes = append(b.notes, notes(&b.plans)...)
	b.engine.sweep.Do(func() { go sweep(b.daemon.Client, ownerLabel, "10m") })
	_, err = b.container("")
	return err
}

// container plans one container, after a look at the host.
func (b *box) container(lineDir string) (*plan.Plan, error) {
	p, spec := b.plans, *b.plans.Spec
	table, err := p.Checked(b.daemon.Endpoint.Socket)
	if err != nil {
		return nil, err
	}
	spec.Table = table
	p.Spec, p.LineDir = &spec, lineDir
	return p.Container(sandboxinit.ConnectArgv(plan.LineInside + "/" + plan.SocketName))
}

// start starts one container.
func (b *box) start(ctx context.Context) (v *vessel.Vessel, mounts []sandboxinit.Mount, err error) {
	m, err := vessel.NewMeeting(b.engine.surroundings.Getenv)
	if err != nil {
		return nil, nil, mountplan.Unavailable(err)
	}
	defer m.End()
	p, err := b.container(m.Dir)
	if err == nil {
		mounts, err = p.Mounts()
	}
	if err == nil {
		v, err = vessel.Launch(ctx, b.daemon.Client, p, b.plans.Options.ImagePlatform, m, &b.vessels)
	}
	return v, mounts, err
}

// launch describes a command in a container of its own. In a container without a network, the gate
// is in this process, with sockets that the init has made. An engine's user may not be root, and
// then cannot give the container addresses that stand for names: programs must use a proxy, which
// the command's variables name.
func (b *box) launch(*shared.Command) (*cmdengine.Launch, error) {
	var v *vessel.Vessel
	var g *gated.Gate
	var l *cmdengine.Launch
	l = &cmdengine.Launch{
		Cmd:         &exec.Cmd{},
		Confinement: sandboxinit.Confinement{Rooted: true},
		Spawn: func(ctx context.Context, _ []string, _ []*os.File, _ *os.File) (_ cmdengine.Process, err error) {
			v, l.Mounts, err = b.start(ctx)
			return v, err
		},
		Inside: func(c *sandboxinit.Command) {
			c.SharedLimits = true // the container's limits are the init's too
			c.Scope = false       // it has no abstract sockets of the host
			c.Env = b.network.Environment(c.Env, g)
		},
		Notes: func(rooted bool) []shared.Event { return launchNotes(v.Warnings, rooted) },
	}
	if b.network != nil {
		l.Gate = func(sockets *sandboxinit.Sockets) (_ cmdengine.Gate, err error) {
			g, err = b.network.Begin(gated.Way{Sockets: sockets.New, Proxy: &gate.Proxy{}})
			return g, err
		}
	}
	if path := b.plans.Image.Path; path != "" {
		l.NotFound = "the image has its programs in " + path + ": make sure that env.PATH does"
	}
	return l, nil
}

// launchNotes report what the daemon ignored, and what a container lacks.
func launchNotes(warnings []string, rooted bool) (notes []shared.Event) {
	for _, w := range warnings {
		notes = append(notes, shared.Event{Kind: shared.EventDegraded, Message: "the Docker daemon: " + daemon.FirstLine(w), Details: map[string]string{"attribute": "engine"}})
	}
	if !rooted {
		notes = append(notes, shared.Event{Kind: shared.EventDegraded, Details: map[string]string{"mechanism": "landlock"},
			Message: "the container has no Landlock, so a command of another sandbox can pass descriptors of directories to the command"})
	}
	return notes
}

func (b *box) plan(*shared.Command) (shared.Plan, error) {
	p, err := b.container("<private>")
	if err != nil {
		return shared.Plan{}, err
	}
	request, err := json.MarshalIndent(map[string]any{"Config": p.Config, "HostConfig": p.Host}, "", "  ")
	if err != nil {
		return shared.Plan{}, err
	}
	out := shared.Plan{
		Argv:      append([]string{"docker", "run", "<container>"}, p.Config.Entrypoint...),
		Mounts:    p.Ops,
		Documents: []shared.PlanDocument{{Name: "container", Text: string(request)}},
	}
	if b.plans.Spec.Network.Mode == shared.NetworkNames {
		out.Notes = append(out.Notes, "a proxy, in HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, reaches the listed names, whatever env sets these to")
	}
	return out, nil
}
