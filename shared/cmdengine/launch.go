package cmdengine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/engine/cgroup"
	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/engine/orphans"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/confine"
	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/shared"
)

// A Launch says how a launcher is started.
type Launch struct {
	*exec.Cmd // as of [Config.Launch]
	// Spawn, with [Config.Init], starts what Path and the words say in the engine's stead, if
	// it is not nil. With an empty Path there is no launcher: the words are the init's own.
	Spawn Spawner
	// Sandbox, with Spawn and no Path, is what the init makes itself, and Unmade explains
	// why it could not; see [sandboxinit.MakingArgv].
	Sandbox *holder.Sandbox
	Unmade  func(*holder.MountError) error
	// Waits says that Path is the init's own, of [sandboxinit.Argv], so that there is no launcher.
	Waits bool
	// Same, with Sandbox or Waits, reports whether an init that Spawn has started for an earlier
	// Launch can serve this one; what Landlock is about is looked at besides. With nil no sandbox is made beforehand.
	Same func(ctx context.Context, earlier Launched) bool
	// Shared, with Sandbox, gives Spawn and Sandbox for a Session with Processes: first is the
	// init that is pid 1 for the others, nil where it is that which is to be started.
	Shared func(first Launched) (Spawner, *holder.Sandbox)
	first  *insideRun // pid 1 of the kept session that this is a member of

	// Gate, with [Config.Init], begins before the command what passes connections between its
	// network and the host's, with sockets from inside.
	Gate func(ctx context.Context, sockets *sandboxinit.Sockets) (Gate, error)
	// Mounts, with [Config.Init], are as of [sandboxinit.Command]. Where one is not
	// in its place all is tried once more.
	Mounts []sandboxinit.Mount
	// Locked, with [Config.Init], is as of [sandboxinit.Confinement]: for a launcher that mounts.
	Locked bool
	// Rooted and Writable, with [Config.Init], are as of [sandboxinit.Confinement].
	Rooted   bool
	Writable []string
	// Landlock, with [Config.Init], is the domain of the command. Own, with it, makes directories of the
	// command's own, and gives more rules, about these. Inside then writes their names
	// into the command's variables.
	Landlock *confine.Landlock
	Own      func() ([]confine.Rule, error)
	Inside   func(*sandboxinit.Command)
	// Ended, with [Config.Init], is called when all that the command has started is gone, or it
	// could not be started.
	Ended func()
}

// A Gate passes connections between a sandbox and the host.
type Gate interface {
	// Hear has emit told of connections from now on, until stop, or until the gate is closed.
	// Session says that others may have made them as well.
	Hear(emit func(shared.Event), session bool) (stop func())
	// Close is called once everything in the sandbox is gone, and returns when nothing more is told.
	Close() error
}

// A Spawner starts a launcher with exactly these descriptors, from 0 on, an
// empty environment and / as its directory. The launcher must die with the
// engine. It may be born in the control group of version 2 whose directory group is, unless
// that is nil: the engine moves one that was not, which costs some milliseconds. The error, if
// it is the caller's to read, is a [shared.Error].
type Spawner func(ctx context.Context, path string, argv []string, files []*os.File, group *os.File) (Launched, error)

// Launched is a launcher that runs.
type Launched interface {
	// Pid is its number, while it runs.
	Pid() int
	// Kill kills it and does not wait. Its methods may be called at once.
	Kill() error
	// Wait waits until it is gone, and is called once. The error says why nobody knows
	// how it ended.
	Wait() (syscall.WaitStatus, error)
}

// forked is a launcher that is the engine's own child.
type forked struct{ *os.Process }

func (f forked) Pid() int { return f.Process.Pid }

func (f forked) Wait() (syscall.WaitStatus, error) {
	proc.Await(f.Process.Pid)
	state, err := f.Process.Wait()
	if err != nil {
		return 0, err
	}
	return state.Sys().(syscall.WaitStatus), nil
}

// launch starts the launcher, in a control group of its own where a limit needs one. An
// init that makes its sandbox has begun to.
func (s *sandbox) launch(ctx context.Context, limits cgroup.Decision, c *Launch, tty bool, stdio [3]*os.File) (*insideRun, error) {
	if c.Err != nil {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Message: c.Err.Error()}
	}
	if !filepath.IsAbs(c.Path) && (c.Path != "" || c.Spawn == nil) {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Message: fmt.Sprintf("the launcher's path %q is not absolute", c.Path)}
	}
	var group *cgroup.Group
	var err error
	if c.first != nil {
		group = c.first.group
	} else if group, err = limits.New(); err != nil {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: "limits", Message: "making a control group: " + err.Error()}
	}
	r, err := s.launchIn(ctx, group, c, tty, stdio)
	if err != nil {
		if c.first == nil {
			group.Remove()
		}
		return nil, err
	}
	if c.Sandbox != nil {
		if err := r.Conn.Make(c.Sandbox); err != nil {
			return nil, r.notStarted(ctx, err, c.Unmade, s.attached.Diagnose)
		}
	}
	return r, nil
}

// launchIn starts it with the init's descriptors behind its own.
func (s *sandbox) launchIn(ctx context.Context, group *cgroup.Group, c *Launch, tty bool, stdio [3]*os.File) (*insideRun, error) {
	unavailable := func(err error) error {
		return &shared.Error{Kind: shared.ErrUnavailable, Message: "preparing the launcher: " + err.Error()}
	}
	binary, err := s.init.Open()
	if err != nil {
		return nil, unavailable(err)
	}
	defer binary.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, unavailable(err)
	}
	defer null.Close()
	engineEnd, initEnd, err := sandboxinit.Pair()
	if err != nil {
		return nil, unavailable(err)
	}
	defer initEnd.Close()
	stderr, stderrEnd, err := newTail()
	if err != nil {
		engineEnd.Close()
		return nil, unavailable(err)
	}

	out := null
	if tty {
		out = stdio[1] // which is shown as /dev/console, so that it has a name inside
	}
	files := append([]*os.File{null, out, stderrEnd}, c.ExtraFiles...)
	binaryFD := len(files)
	files = append(files, binary, initEnd)
	name, path, argv := "init", c.Path, sandboxinit.MakingArgv(binaryFD, binaryFD+1, 3, 4)
	var sockets *sandboxinit.Sockets
	if c.Waits {
		argv = sandboxinit.WaitingArgv(binaryFD, binaryFD+1)
	} else if c.Sandbox == nil {
		files = append(files, stdio[:]...)
		words := sandboxinit.Argv(binaryFD, binaryFD+1)
		if c.Gate != nil {
			var socketsEnd *os.File
			if sockets, socketsEnd, err = sandboxinit.NewSockets(); err != nil {
				engineEnd.Close()
				stderrEnd.Close()
				stderr.finish()
				return nil, unavailable(err)
			}
			defer socketsEnd.Close()
			words = sandboxinit.ServingArgv(binaryFD, binaryFD+1, len(files))
			files = append(files, socketsEnd)
		}
		name = filepath.Base(path)
		argv = append(append([]string{}, c.Args...), words...)
	}
	spawn := c.Spawn
	if spawn == nil {
		spawn = s.fork(c.SysProcAttr, group)
	}
	process, err := spawn(ctx, path, argv, files, group.Directory())
	stderrEnd.Close()
	if err != nil {
		engineEnd.Close()
		stderr.finish()
		if sockets != nil {
			sockets.Close()
		}
		return nil, err
	}
	r := &insideRun{
		name: name, by: c, bare: c.first == nil && (c.Waits || c.Sandbox != nil), clearsUp: s.engine.config.initEnds(), sockets: sockets,
		launcher: process, stderr: stderr, group: group, member: c.first != nil, exited: make(chan struct{}),
	}
	if r.member {
		r.before = group.Killed()
	}
	r.InitRun = InitRun{Conn: sandboxinit.NewConn(engineEnd), Gone: r.exited,
		Finish: r.settle, End: r.giveUp, Lost: r.unknown}
	// Before a child of ours can be reaped, so that its number is its own; and before
	// the init is sent the command, so that nothing of the command's runs outside.
	grouped := group.Add(process.Pid())
	go func() {
		r.status, r.lost = process.Wait()
		close(r.exited)
	}()
	if grouped != nil {
		r.observe()
		r.giveUp()
		r.finish()
		orphans.Kill(0)
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: "limits", Message: "entering a control group: " + grouped.Error()}
	}
	return r, nil
}

// fork starts launchers as the engine's own children, in group where the kernel can.
func (s *sandbox) fork(base *syscall.SysProcAttr, group *cgroup.Group) Spawner {
	return func(_ context.Context, path string, argv []string, files []*os.File, _ *os.File) (Launched, error) {
		attr := sysProcAttr(base, s.credential, s.engine.config.initEnds())
		var process *os.Process
		err := group.Start(attr, func() (err error) {
			// Variables here are read outside the sandbox. Not nil, which
			// would be the engine's own.
			process, err = s.engine.forker.process(path, argv, &os.ProcAttr{Env: append([]string{}, s.engine.config.Environ...), Dir: "/", Files: files, Sys: attr})
			return err
		})
		if err != nil {
			return nil, launchError(path, s.credential, err)
		}
		return forked{process}, nil
	}
}
