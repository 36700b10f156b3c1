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

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
	"github.com/sbxhost/sbxhost/shared/containerinit"
	"github.com/sbxhost/sbxhost/shared/gated"
	"github.com/sbxhost/sbxhost/shared/sandboxinit"
	"github.com/sbxhost/sbxhost/shared/seccomp"
)

// A box is one opened Spec: cmdengine's sandbox, and what it takes to make
// containers for it.
type box struct {
	shared.Sandbox
	engine *engine

	// Final once open has returned.
	daemon *daemon
	plans  planner
	notes  []shared.Event
	// network is what is passed between a container's network, which is its own, and the
	// host's; nil for nothing.
	network *gated.Network
	filter  []byte // of system calls

	cache       *cacheKeeper
	lasting     *lasting     // nil where containers end with the box
	preparation *preparation // of the image; nil before

	vessels sync.WaitGroup

	mu     sync.Mutex
	closed bool
	held   *held // with reuse, the one that commands are let into
}

// open is cmdengine's hook: spec's form and features have been checked.
func (b *box) open(ctx context.Context, spec *shared.Spec) error {
	o, err := parseOptions(spec.Options)
	if err != nil {
		return err
	}
	limits, err := o.limits(spec)
	if err != nil {
		return err
	}
	if b.network, err = gated.Read(&spec.Network); err != nil {
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
	if err := b.daemon.facts.ownedBy(runAs); err != nil {
		return err
	}
	limitNotes, err := holdable(b.daemon.facts, &limits)
	if err != nil {
		return err
	}
	b.plans = planner{spec: spec, options: o, limits: limits, daemon: b.daemon.facts, memory: machineMemory(), self: self(),
		initFile: initFile.Path, labels: ownerLabels()}
	b.notes = append(b.notes, limitNotes...)
	// Docker's own filter stays in force. It lets through what leaves something
	// behind or reaches beyond: set-id bits, input for terminals, io_uring, vsock.
	filter, err := seccomp.New(runtime.GOARCH, seccomp.Options{UnixSockets: true})
	if err != nil {
		return &shared.Error{Kind: shared.ErrUnavailable, Attribute: "engine", Message: err.Error()}
	}
	b.filter = filter.Bytes()
	b.preparation = &preparation{daemon: b.daemon, options: o, spec: spec, getenv: b.engine.surroundings.getenv,
		project: projectName(thisOwner(), b.engine.projects.Add(1))}
	if err := b.preparation.prepare(ctx); err != nil {
		return err
	}
	b.plans.image, b.plans.network, b.plans.binds = b.preparation.image, b.preparation.network, b.preparation.guarded
	if b.cache, err = newCacheKeeper(b.daemon.client, &b.plans, b.engine.surroundings.getenv); err != nil {
		return err
	}
	if b.lasting, err = newLasting(spec, o); err != nil {
		return err
	}
	b.notes = append(b.notes, notes(&b.plans)...)
	b.engine.sweep.Do(func() { go sweep(b.daemon.client) })
	if _, err := b.container("", nil); err != nil {
		return err
	}
	return nil
}

// container plans one container, after a look at the host.
func (b *box) container(lineDir string, words []string) (*plan, error) {
	p, spec := b.plans, *b.plans.spec
	table, err := p.settled(b.daemon.endpoint.socket)
	if err != nil {
		return nil, err
	}
	spec.Table = table
	p.spec, p.binds, p.lineDir = &spec, nil, lineDir
	return p.container(words)
}

// launch starts one container, which is gone when the box has been closed.
func (b *box) launch(ctx context.Context, argv func(socket string) []string) (*vessel, error) {
	v, err := b.launchWith(ctx, argv, b.plans.labels)
	if err != nil {
		return nil, err
	}
	b.vessels.Add(1)
	go func() {
		<-v.removed
		b.vessels.Done()
	}()
	return v, nil
}

func (b *box) launchWith(ctx context.Context, argv func(socket string) []string, labels map[string]string) (*vessel, error) {
	if err := b.cache.refresh(ctx); err != nil {
		return nil, err
	}
	m, err := newMeeting(b.engine.surroundings.getenv)
	if err != nil {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Message: err.Error()}
	}
	defer m.end()
	p, err := b.container(m.dir, argv(lineInside+"/"+socketName))
	if err != nil {
		return nil, err
	}
	p.config.Labels = labels
	return launch(ctx, b.daemon.client, p, b.plans.options.platform, m)
}

// begin is cmdengine's hook.
func (b *box) begin(ctx context.Context, _ *shared.Spec, cmd *shared.Command, stdio [3]*os.File, emit func(shared.Event)) (cmdengine.Run, []shared.Event, error) {
	start := b.beginFresh
	if b.plans.options.Reuse {
		start = b.beginShared
	}
	r, err := start(ctx, cmd, stdio, b.outlet(emit))
	if err != nil {
		return nil, nil, b.explain(err)
	}
	told := slices.Clone(b.notes)
	for _, w := range r.vessel.warnings {
		told = append(told, shared.Event{Kind: shared.EventDegraded, Message: "the Docker daemon: " + firstLine(w), Details: map[string]string{"attribute": "engine"}})
	}
	if at := r.vessel.replaced.Swap(nil); at != nil {
		told = append(told, shared.Event{Kind: shared.EventDegraded, Details: map[string]string{"attribute": "config.reuse"},
			Message: fmt.Sprintf("config.reuse: the container was replaced, since %q is not the file that it was", *at)})
	}
	return r, told, nil
}

// beginFresh runs a command in a container of its own.
func (b *box) beginFresh(ctx context.Context, cmd *shared.Command, stdio [3]*os.File, out *outlet) (*run, error) {
	v, err := b.launch(ctx, containerinit.FetchArgv)
	if err != nil {
		return nil, err
	}
	r := newRun(v, func() {
		v.awaitGone()
		v.line.conn.Close()
	}, v.kill)
	if err := r.begin(ctx, 0, b.command(cmd), stdio, out); err != nil {
		v.remove()
		return nil, err
	}
	return r, nil
}

// beginShared runs a command in the container that commands share, and in the
// next one where that has lost a mount.
func (b *box) beginShared(ctx context.Context, cmd *shared.Command, stdio [3]*os.File, out *outlet) (*run, error) {
	if b.lasting != nil {
		// Until the command runs: nobody else puts another container in the place
		// of the session's meanwhile.
		unlock, err := lockDir(ctx, b.lasting.dir)
		if err != nil {
			return nil, b.lasting.unavailable(err)
		}
		defer unlock()
	}
	if err := b.cache.refresh(ctx); err != nil {
		return nil, err
	}
	var lost *string
	const often = 10 // one that is new is not looked at, but others may have been faster
	for range often {
		h, err := b.enter(ctx)
		if err != nil {
			return nil, err
		}
		r, err := b.beginIn(ctx, h, cmd, stdio, out)
		if bare, ok := errors.AsType[*bareError](err); ok {
			lost = &bare.path
			continue
		}
		if err == nil && lost != nil {
			r.vessel.replaced.Store(lost)
		}
		return r, err
	}
	return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: "config.reuse",
		Message: fmt.Sprintf("one container after another loses what is mounted on %q", *lost)}
}

func (b *box) beginIn(ctx context.Context, h *held, cmd *shared.Command, stdio [3]*os.File, out *outlet) (*run, error) {
	number, end := h.announce()
	var r *run
	r = newRun(h.vessel, func() {
		h.await(end, r.Conn)
		h.leave()
	}, func() { h.retire(); h.vessel.kill() })
	told := b.command(cmd)
	if h.reused() {
		for _, path := range h.made.mounted {
			told.Mounts = append(told.Mounts, sandboxinit.Mount{Path: path, Links: true})
		}
	}
	err := r.begin(ctx, number, told, stdio, out)
	if err == nil {
		return r, nil
	}
	_, bare := errors.AsType[*bareError](err)
	broken := errors.Is(err, shared.ErrBroken)
	if bare || broken {
		h.retire() // those that run in it may end there
		if b.lasting != nil {
			b.lasting.leave() // or the next command would find it again
			if broken {
				h.kill()
			}
		}
	}
	h.leave()
	return nil, err
}

// enter gives the container that commands share, a new one where there is none
// that is made of just what this command asks for.
func (b *box) enter(ctx context.Context) (*held, error) {
	m, err := b.madeOf()
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
		if h.made.same(&m) && h.place == b.lasting.place() && h.enter() {
			return h, nil
		}
		if h.made.of == m.of {
			why = m.differs(h.made.sources)
		}
		b.retireHeld()
	}
	var v *vessel
	if b.lasting != nil {
		if v, why, err = b.findLasting(ctx, &m); err != nil {
			return nil, err
		}
	}
	found := v != nil
	switch {
	case found:
	case b.lasting != nil:
		v, err = b.makeLasting(ctx, &m)
	default:
		v, err = b.launch(ctx, containerinit.KeepArgv)
	}
	if err != nil {
		return nil, err
	}
	v.replaced.Store(why)
	h := &held{vessel: v, made: m, ends: map[uint64]chan struct{}{}, lasting: b.lasting != nil, place: b.lasting.place(), used: found}
	go h.read()
	if !h.enter() {
		return nil, &shared.Error{Kind: shared.ErrBroken, Message: "the container ended as soon as it was there"}
	}
	b.held = h
	return h, nil
}

// retireHeld gives up the container that commands share. The caller has the lock.
func (b *box) retireHeld() {
	if b.held != nil {
		b.held.retire()
		b.held = nil
	}
}

// command is what the init is told.
func (b *box) command(cmd *shared.Command) sandboxinit.Command {
	// No core dumps: they would be written to the workspace, or by the host's
	// handler, with the command's memory in them.
	limits := []sandboxinit.Rlimit{{Resource: unix.RLIMIT_CORE}}
	if n := b.plans.limits.OpenFiles; n > 0 {
		limits = append(limits, sandboxinit.Rlimit{Resource: unix.RLIMIT_NOFILE, Soft: n, Hard: n})
	}
	// The container's bounds are the init's, too.
	return sandboxinit.Command{Args: cmd.Args, Script: cmd.Script, Env: cmd.Env, Dir: cmd.Dir, TTY: cmd.TTY, Crowded: true, Rlimits: limits, Filter: b.filter}
}

// explain adds to an error what this engine's user may not think of.
func (b *box) explain(err error) error {
	e, ok := errors.AsType[*shared.Error](err)
	if ok && e.Kind == shared.ErrNotFound && e.Hint == "" && b.plans.image.path != "" {
		with := *e
		with.Hint = "the image has its programs in " + b.plans.image.path + ": see that env.PATH does"
		return &with
	}
	return err
}

// plan is cmdengine's hook.
func (b *box) plan(*shared.Spec, *shared.Command) (shared.Plan, error) {
	words := containerinit.FetchArgv(lineInside + "/" + socketName)
	switch {
	case b.lasting != nil:
		words = containerinit.StayArgv(lineInside + "/" + socketName)
	case b.plans.options.Reuse:
		words = containerinit.KeepArgv(lineInside + "/" + socketName)
	}
	p, err := b.container("<private>", words)
	if err != nil {
		return shared.Plan{}, err
	}
	request, err := json.MarshalIndent(map[string]any{"Config": p.config, "HostConfig": p.host}, "", "  ")
	if err != nil {
		return shared.Plan{}, err
	}
	out := shared.Plan{
		Argv:      append([]string{"docker", "run", "<container>"}, p.config.Entrypoint...),
		Mounts:    p.ops,
		Documents: []shared.PlanDocument{{Name: "container", Text: string(request)}},
	}
	if b.plans.options.Inline != "" {
		out.Documents = append(out.Documents, shared.PlanDocument{Name: "Dockerfile", Text: b.plans.options.Inline})
	}
	for _, n := range b.notes {
		out.Notes = append(out.Notes, n.Message)
	}
	if b.plans.spec.Network.Mode == shared.NetworkNames {
		out.Notes = append(out.Notes, "listed names are reached by a proxy, which HTTP_PROXY, HTTPS_PROXY and ALL_PROXY name, whatever env has for these")
	}
	return out, nil
}

// Close implements shared.Sandbox. It returns once the containers are gone.
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
		b.release()
		return err
	case <-ctx.Done():
		go b.release()
		return ctx.Err()
	}
}

// release takes away what was made beside containers.
func (b *box) release() {
	if b.preparation != nil {
		b.preparation.release()
	}
}
