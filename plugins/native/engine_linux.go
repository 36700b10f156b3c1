package native

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/egress/gate"
	"github.com/sbxhost/sbxhost/internal/engine/gated"
	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/engine/mountplan"
	"github.com/sbxhost/sbxhost/internal/engine/nsengine"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

// New makes the engine. It reads nothing before its first use.
func New() shared.Engine {
	e := &engine{sessions: sessions{open: map[sessionKey]*session{}}}
	e.early = sync.OnceValues(func() (*holder.StandaloneInit, error) { return newSession(&shared.Spec{}).startStandalone(true) })
	e.Engine = cmdengine.New(cmdengine.Config{
		Info:       info,
		Probe:      e.probe,
		Attach:     e.attach,
		Init:       true,
		Filter:     nsengine.FilterProgram(os.Geteuid() == 0),
		Trace:      nsengine.TraceProgram,
		HoldLimits: true,
	})
	return e
}

type engine struct {
	shared.Engine
	sessions sessions
	// early starts an init with a network of its own, once; the first to swap taken gets it.
	early func() (*holder.StandaloneInit, error)
	taken atomic.Bool

	prober nsengine.Prober
}

type openSandbox struct {
	*mountplan.Table
	engine  *engine
	session *session
	network *gated.Network // may be nil
	rooted  bool           // see [sandboxinit.Confinement]
	// oneShot says that commands share nothing, so there is no holder. first is the init that waits
	// for its first command.
	oneShot bool
	first   atomic.Pointer[holder.StandaloneInit]
	last    [2]atomic.Pointer[work] // without and with a terminal
}

// attach looks at the host and joins the session.
func (e *engine) attach(ctx context.Context, spec *shared.Spec) (*cmdengine.Attachment, error) {
	network, err := gated.Read(spec)
	if err != nil {
		return nil, err
	}
	filter, err := nsengine.ParseFilter(spec.Options)
	if err != nil {
		return nil, err
	}
	s := &openSandbox{Table: &mountplan.Table{Facts: mountplan.Look(), Support: &mountplan.Support{}, Spec: spec}, engine: e, network: network, rooted: !filter.NestedUserNamespaces,
		oneShot: !spec.Prepare && (spec.Session.Dir == "" || spec.Session.ID == "" && spec.User == nil)}
	if network != nil {
		s.Support.Nameserver = gate.Nameserver
	}
	if err := s.join(ctx); err != nil {
		return nil, err
	}
	m, err := s.prepare(false)
	if err != nil {
		s.leave()
		return nil, err
	}
	// Meanwhile the host learns of the open sandbox and sends its first command.
	if !s.oneShot {
		if client, err := s.session.connect(ctx); err == nil {
			client.Prepare(m.tree)
		}
	}
	return &cmdengine.Attachment{
		Launch: s.launch, Prepares: true,
		Plan:   s.plan,
		Events: s.Events,
		Fresh:  nsengine.FreshHome(spec, s.Support.Holder && spec.Session.ID != ""),
		Renew:  network.Renew,
		Close:  s.leave,
	}, nil
}

// work is the result of a plan.
type work struct {
	drawn  *mountplan.CachedPlan
	halves mountplan.Halves
	tree   holder.Plan
	box    holder.Sandbox // also the sandbox that others join
	member holder.Sandbox // a sandbox that joins
	// overlays are as in [holder.Start].
	overlays []string

	rooted   bool
	writable []string
}

// prepare returns the work of a command's plan, mostly the last one's.
func (s *openSandbox) prepare(terminal bool) (*work, error) {
	drawn, err := s.Draw()
	if err != nil {
		return nil, err
	}
	kept := &s.last[0]
	if terminal {
		kept = &s.last[1]
	}
	if last := kept.Load(); last != nil && last.drawn == drawn {
		return last, nil
	}
	m := &work{drawn: drawn, halves: mountplan.Halve(drawn.Ops, terminal, s.ownOverlays()), rooted: s.rooted, writable: mountplan.Writable(drawn.Ops)}
	m.tree, m.overlays = holder.NewPlan(m.halves.Shared), holder.OwnOverlays(m.halves.Command)
	spaces, err := holder.OwnNamespaces()
	if err != nil {
		return nil, mountplan.Unavailable(err)
	}
	m.box = holder.Sandbox{
		Starter:    spaces,
		Namespaces: unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
		Steps:      holder.NewPlan(m.halves.Command),
	}
	if s.Spec.Network.Mode != shared.NetworkHost {
		m.box.Namespaces |= unix.CLONE_NEWNET
	}
	m.box.Resets = s.network.Resets()
	m.member = holder.Sandbox{Starter: spaces, Namespaces: unix.CLONE_NEWCGROUP, Steps: m.box.Steps, Member: true}
	kept.Store(m)
	return m, nil
}

// process is an init after its start.
type process struct {
	*holder.Process
	work   *work
	client *holder.Client
}

// launch describes the init, with its sandbox, for the holder to start.
func (s *openSandbox) launch(cmd *shared.Command) (*cmdengine.Launch, error) {
	m, err := s.last[0].Load(), error(nil)
	if cmd != nil { // without a command the last plan will do; the next one looks at the host
		if m, err = s.prepare(cmd.TTY); err != nil {
			return nil, err
		}
	}
	if m == nil {
		return &cmdengine.Launch{Cmd: &exec.Cmd{}}, nil // all had a terminal
	}
	l := &cmdengine.Launch{Cmd: &exec.Cmd{}, Spawn: s.spawner(m, holder.Start{Namespaces: m.box.Namespaces, Ahead: cmd == nil}), Sandbox: &m.box,
		Confinement: sandboxinit.Confinement{Locked: true, Rooted: m.rooted, Writable: m.writable}}
	if s.oneShot {
		box := m.box
		box.Tree, box.Namespaces = m.tree, box.Namespaces&^unix.CLONE_NEWCGROUP
		l.Spawn, l.Sandbox = s.aloneSpawner(m), &box
	}
	if s.Spec.Session.Processes {
		l.Shared = func(first cmdengine.Process, emit func(shared.Event)) (cmdengine.Spawner, *holder.Sandbox) {
			if first == nil {
				return s.spawner(m, holder.Start{Namespaces: m.box.Namespaces, First: true, Restored: func(dest, reason string) { emit(m.restored(dest, reason)) }}), &m.box
			}
			return s.spawner(m, holder.Start{Namespaces: m.member.Namespaces, Joins: first.(*process).Process}), &m.member
		}
	}
	if s.network != nil {
		l.Gate = func(sockets *sandboxinit.Sockets) (cmdengine.Gate, error) {
			return s.network.Begin(gated.Way{Sockets: sockets.New, Resets: true})
		}
	}
	l.MountFailed = func(failed *holder.MountError) error {
		if failed.Shared {
			return s.explain(m.halves.Shared, failed)
		}
		return s.explain(m.halves.Command, failed)
	}
	// A copy of a file would be old in a sandbox that has waited.
	copies := slices.ContainsFunc(m.halves.Command, func(o holder.Op) bool { return o.Kind == holder.File })
	if !s.oneShot && (cmd == nil || !cmd.TTY) && !copies {
		l.Same = func(ctx context.Context, earlier cmdengine.Process) bool {
			i := earlier.(*process)
			// Its own mounts must still be there when it has waited: the host can move a directory away
			// under them, or the holder puts one of the tree's back over them.
			for _, o := range m.halves.Command {
				if o.Kind == holder.Memory || o.Kind == holder.OwnOverlay {
					l.Mounts = append(l.Mounts, sandboxinit.Mount{Path: o.Dest[len("/0"):]})
				}
			}
			return i.work == m && i.client.Same(ctx, i.Process)
		}
	}
	return l, nil
}

func (s *openSandbox) plan(*shared.Command) (shared.Plan, error) {
	drawn, err := s.Draw()
	if err != nil {
		return shared.Plan{}, err
	}
	f, err := nsengine.Filter(s.Spec, os.Geteuid() == 0)
	if err != nil {
		return shared.Plan{}, err
	}
	return shared.Plan{
		Argv:      cmdengine.PlannedInit(),
		Mounts:    mountplan.Planned(drawn.Ops),
		Documents: []shared.PlanDocument{{Name: "system calls", Text: f.String()}},
	}, nil
}
