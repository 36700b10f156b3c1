package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/sbxhost/sbxhost/internal/engine/containerinit"
	"github.com/sbxhost/sbxhost/internal/engine/gated"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/caches"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/daemon"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/definition"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/image"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/kept"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/owner"
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

	cache   *caches.Keeper
	lasting *kept.SessionContainer // nil if containers end with the box

	vessels sync.WaitGroup

	mu     sync.Mutex
	closed bool
	held   *kept.Held // with reuse, the container of all commands
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
		InitFile: initFile.Path, Labels: map[string]string{owner.Label: owner.This().String()}}
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
	if b.cache, err = caches.New(b.daemon.Client, &b.plans, b.engine.surroundings.Getenv); err != nil {
		return err
	}
	if b.lasting, err = kept.NewSessionContainer(spec, o); err != nil {
		return err
	}
	b.notes = append(b.notes, notes(&b.plans)...)
	b.engine.sweep.Do(func() { go sweep(b.daemon.Client) })
	if _, err := b.container("", nil); err != nil {
		return err
	}
	return nil
}

// container plans one container, after a look at the host.
func (b *box) container(lineDir string, words []string) (*plan.Plan, error) {
	p, spec := b.plans, *b.plans.Spec
	table, err := p.Checked(b.daemon.Endpoint.Socket)
	if err != nil {
		return nil, err
	}
	spec.Table = table
	p.Spec, p.LineDir = &spec, lineDir
	return p.Container(words)
}

// launch starts one container, which ends at the latest with the box.
func (b *box) launch(ctx context.Context, argv func(socket string) []string) (*vessel.Vessel, error) {
	v, err := b.launchWith(ctx, argv, b.plans.Labels)
	if err != nil {
		return nil, err
	}
	b.vessels.Add(1)
	go func() {
		<-v.Removed
		b.vessels.Done()
	}()
	return v, nil
}

func (b *box) launchWith(ctx context.Context, argv func(socket string) []string, labels map[string]string) (*vessel.Vessel, error) {
	if err := b.cache.Refresh(ctx); err != nil {
		return nil, err
	}
	m, err := vessel.NewMeeting(b.engine.surroundings.Getenv)
	if err != nil {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Message: err.Error()}
	}
	defer m.End()
	p, err := b.container(m.Dir, argv(plan.LineInside+"/"+plan.SocketName))
	if err != nil {
		return nil, err
	}
	p.Config.Labels = labels
	return vessel.Launch(ctx, b.daemon.Client, p, b.plans.Options.ImagePlatform, m)
}

func (b *box) begin(ctx context.Context, _ *shared.Spec, cmd *shared.Command, stdio [3]*os.File, emit func(shared.Event)) (cmdengine.Run, []shared.Event, error) {
	start := b.beginFresh
	if b.plans.Options.Reuse {
		start = b.beginShared
	}
	r, err := start(ctx, cmd, stdio, emit)
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
	if at := r.Vessel.Replaced.Swap(nil); at != nil {
		told = append(told, shared.Event{Kind: shared.EventDegraded, Details: map[string]string{"attribute": "config.reuse"},
			Message: fmt.Sprintf("config.reuse: the container was replaced, because %q is another file now", *at)})
	}
	return r, told, nil
}

// beginFresh runs a command in a container of its own.
func (b *box) beginFresh(ctx context.Context, cmd *shared.Command, stdio [3]*os.File, emit func(shared.Event)) (*vessel.Run, error) {
	v, err := b.launch(ctx, containerinit.FetchArgv)
	if err != nil {
		return nil, err
	}
	r := vessel.NewRun(v, func() {
		v.AwaitGone()
		v.Line.Conn.Close()
	}, v.Kill)
	if err := r.Begin(ctx, 0, b.command(cmd), stdio, b.network, emit); err != nil {
		v.Remove()
		return nil, err
	}
	return r, nil
}

// beginShared runs a command in the shared container, and in the next one if that has lost a mount.
func (b *box) beginShared(ctx context.Context, cmd *shared.Command, stdio [3]*os.File, emit func(shared.Event)) (*vessel.Run, error) {
	if b.lasting != nil {
		// Until the command runs, so that nobody else replaces the session's container.
		unlock, err := owner.LockDir(ctx, b.lasting.Dir)
		if err != nil {
			return nil, b.lasting.Unavailable(err)
		}
		defer unlock()
	}
	if err := b.cache.Refresh(ctx); err != nil {
		return nil, err
	}
	var lost *string
	const often = 10 // a new one is not checked, but others may have been faster
	for range often {
		h, err := b.enter(ctx)
		if err != nil {
			return nil, err
		}
		r, err := b.beginIn(ctx, h, cmd, stdio, emit)
		if bare, ok := errors.AsType[*vessel.BareError](err); ok {
			lost = &bare.Path
			continue
		}
		if err == nil && lost != nil {
			r.Vessel.Replaced.Store(lost)
		}
		return r, err
	}
	return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: "config.reuse",
		Message: fmt.Sprintf("one container after another loses the mount on %q", *lost)}
}

func (b *box) beginIn(ctx context.Context, h *kept.Held, cmd *shared.Command, stdio [3]*os.File, emit func(shared.Event)) (*vessel.Run, error) {
	number, end := h.Announce()
	var r *vessel.Run
	r = vessel.NewRun(h.Vessel, func() {
		h.Await(end, r.Conn)
		h.Leave()
	}, func() { h.Retire(); h.Vessel.Kill() })
	told := b.command(cmd)
	if h.Reused() {
		for _, path := range h.MadeFrom.Mounted {
			told.Mounts = append(told.Mounts, sandboxinit.Mount{Path: path, Links: true})
		}
	}
	err := r.Begin(ctx, number, told, stdio, b.network, emit)
	if err == nil {
		return r, nil
	}
	_, bare := errors.AsType[*vessel.BareError](err)
	broken := errors.Is(err, shared.ErrBroken)
	if bare || broken {
		h.Retire() // it may still run other commands
		if b.lasting != nil {
			b.lasting.Leave() // or the next command would find it again
			if broken {
				h.Kill()
			}
		}
	}
	h.Leave()
	return nil, err
}

// enter returns the shared container. It makes a new one if there is none, or if that was made from
// anything else than this command needs.
func (b *box) enter(ctx context.Context) (*kept.Held, error) {
	p, err := b.container("", nil)
	if err != nil {
		return nil, err
	}
	m, err := kept.MadeOf(p, b.plans.InitFile)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, &shared.Error{Kind: shared.ErrClosed, Message: "the sandbox is closed"}
	}
	var why *string
	if h := b.held; h != nil {
		if h.MadeFrom.Same(&m) && h.Place == b.lasting.Place() && h.Enter() {
			return h, nil
		}
		if h.MadeFrom.Of == m.Of {
			why = m.Differs(h.MadeFrom.Sources)
		}
		b.retireHeld()
	}
	var v *vessel.Vessel
	if b.lasting != nil {
		if v, why, err = b.lasting.Find(ctx, b.daemon.Client, &m); err != nil {
			return nil, err
		}
	}
	found := v != nil
	switch {
	case found:
	case b.lasting != nil:
		v, err = b.lasting.Settle(func() (*vessel.Vessel, error) {
			return b.launchWith(ctx, containerinit.StayArgv, b.lasting.Labels(&m))
		})
	default:
		v, err = b.launch(ctx, containerinit.KeepArgv)
	}
	if err != nil {
		return nil, err
	}
	v.Replaced.Store(why)
	h := kept.Hold(v, m, b.lasting, found)
	if !h.Enter() {
		return nil, &shared.Error{Kind: shared.ErrBroken, Message: "the container ended right after its start"}
	}
	b.held = h
	return h, nil
}

// retireHeld gives up the shared container. The caller has the lock.
func (b *box) retireHeld() {
	if b.held != nil {
		b.held.Retire()
		b.held = nil
	}
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
	words := containerinit.FetchArgv(plan.LineInside + "/" + plan.SocketName)
	switch {
	case b.lasting != nil:
		words = containerinit.StayArgv(plan.LineInside + "/" + plan.SocketName)
	case b.plans.Options.Reuse:
		words = containerinit.KeepArgv(plan.LineInside + "/" + plan.SocketName)
	}
	p, err := b.container("<private>", words)
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
	b.mu.Lock()
	b.closed = true
	b.retireHeld()
	b.mu.Unlock()
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
