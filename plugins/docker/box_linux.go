package docker

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/sbxhost/sbxhost/internal/engine/containerinit"
	"github.com/sbxhost/sbxhost/internal/engine/gated"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/daemon"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/definition"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/image"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/plan"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/vessel"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
	"github.com/sbxhost/sbxhost/shared/seccomp"
)

// A box is one opened Spec: cmdengine's sandbox, with what makes its containers.
type box struct {
	shared.Sandbox
	engine *engine

	// Final after open.
	daemon *daemon.Daemon
	plans  plan.Planner
	notes  []shared.Event
	// network passes connections between a container's own network and the host's; may be nil.
	network *gated.Network
	filter  []byte // of system calls

	vessels sync.WaitGroup
}

// open is cmdengine's hook, after checks of the Spec's form and features.
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
		return &shared.Error{Kind: shared.ErrUnavailable, Message: err.Error()}
	}
	if err := checkInit(initFile.Path); err != nil {
		return err
	}
	if b.daemon, err = b.engine.daemon(ctx); err != nil {
		return err
	}
	runAs := self()
	if spec.User != nil {
		runAs = *spec.User
	}
	if err := b.daemon.Facts.OwnedBy(runAs); err != nil {
		return err
	}
	limits := spec.Limits
	limitNotes, err := daemon.Holdable(b.daemon.Facts, &limits)
	if err != nil {
		return err
	}
	b.plans = plan.Planner{Spec: spec, Options: o, Limits: limits, Daemon: b.daemon.Facts, Memory: machineMemory(), Self: self(),
		InitFile: initFile.Path, Labels: map[string]string{ownerLabel: strconv.Itoa(os.Getpid())}}
	b.notes = append(b.notes, limitNotes...)
	// Docker's own filter stays in force. It permits calls that leave something behind or reach
	// outside: set-id bits, input for terminals, io_uring, vsock.
	filter, err := seccomp.New(runtime.GOARCH, seccomp.Options{UnixSockets: true})
	if err != nil {
		return &shared.Error{Kind: shared.ErrUnavailable, Attribute: "engine", Message: err.Error()}
	}
	b.filter = filter.Bytes()
	if b.plans.Image, err = image.Fetch(ctx, b.daemon.Client, o); err != nil {
		return err
	}
	b.notes = append(b.notes, notes(&b.plans)...)
	b.engine.sweep.Do(func() { go sweep(b.daemon.Client, ownerLabel, "10m") })
	if _, err := b.container(""); err != nil {
		return err
	}
	return nil
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
	return p.Container(containerinit.Argv(plan.LineInside + "/" + plan.SocketName))
}

// launch starts one container, which ends at the latest with the box.
func (b *box) launch(ctx context.Context) (*vessel.Vessel, error) {
	m, err := vessel.NewMeeting(b.engine.surroundings.Getenv)
	if err != nil {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Message: err.Error()}
	}
	defer m.End()
	p, err := b.container(m.Dir)
	if err != nil {
		return nil, err
	}
	return vessel.Launch(ctx, b.daemon.Client, p, b.plans.Options.ImagePlatform, m, &b.vessels)
}

func (b *box) begin(ctx context.Context, _ *shared.Spec, cmd *shared.Command, stdio [3]*os.File, emit func(shared.Event)) (cmdengine.Run, []shared.Event, error) {
	r, err := b.run(ctx, cmd, stdio, emit)
	if err != nil {
		return nil, nil, b.explain(err)
	}
	told := slices.Clone(b.notes)
	for _, w := range r.Vessel.Warnings {
		told = append(told, shared.Event{Kind: shared.EventDegraded, Message: "the Docker daemon: " + daemon.FirstLine(w), Details: map[string]string{"attribute": "engine"}})
	}
	if !r.Conn.Rooted() {
		told = append(told, shared.Event{Kind: shared.EventDegraded, Details: map[string]string{"mechanism": "landlock"},
			Message: "the container has no Landlock, so a command of another sandbox can pass descriptors of directories to the command"})
	}
	return r, told, nil
}

// run runs a command in a container of its own.
func (b *box) run(ctx context.Context, cmd *shared.Command, stdio [3]*os.File, emit func(shared.Event)) (*vessel.Run, error) {
	v, err := b.launch(ctx)
	if err != nil {
		return nil, err
	}
	r := vessel.NewRun(v)
	if err := r.Begin(ctx, b.command(cmd), stdio, b.network, emit); err != nil {
		v.Remove()
		return nil, err
	}
	return r, nil
}

// command is the command's description for the init.
func (b *box) command(cmd *shared.Command) sandboxinit.Command {
	// The container's limits are the init's too.
	return sandboxinit.Command{Args: cmd.Args, Script: cmd.Script, Env: cmd.Env, Dir: cmd.Dir, TTY: cmd.TTY, SharedLimits: true, Rlimits: sandboxinit.Rlimits(b.plans.Limits.OpenFiles),
		Confinement: sandboxinit.Confinement{Rooted: true, Filter: b.filter}}
}

// explain adds a hint to an error that the user may not understand.
func (b *box) explain(err error) error {
	e, ok := errors.AsType[*shared.Error](err)
	if ok && e.Kind == shared.ErrNotFound && e.Hint == "" && b.plans.Image.Path != "" {
		with := *e
		with.Hint = "the image has its programs in " + b.plans.Image.Path + ": make sure that env.PATH does"
		return &with
	}
	return err
}

func (b *box) plan(*shared.Spec, *shared.Command) (shared.Plan, error) {
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
	for _, n := range b.notes {
		out.Notes = append(out.Notes, n.Message)
	}
	if b.plans.Spec.Network.Mode == shared.NetworkNames {
		out.Notes = append(out.Notes, "a proxy, in HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, reaches the listed names, whatever env sets these to")
	}
	return out, nil
}

// Close implements shared.Sandbox. It returns when the containers are gone.
func (b *box) Close(ctx context.Context) error {
	err := b.Sandbox.Close(ctx)
	gone := make(chan struct{})
	go func() {
		b.vessels.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
