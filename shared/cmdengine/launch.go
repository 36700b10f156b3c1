package cmdengine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/engine/cgroup"
	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/confine"
	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/shared"
)

// endPatience is how long each of two ends of a sandbox may outlive the other before it is killed, and
// how long an init may take to obey a kill.
const endPatience = 1500 * time.Millisecond

// clearingUp is how long a launcher with [Config.ClearsUp] may outlive the init.
const clearingUp = 20 * time.Second

// A Launch says how to start a launcher. Without Args there is no launcher: the init starts itself.
type Launch struct {
	*exec.Cmd // as in [Config.Launch]
	// Spawn, with [Config.Init], starts the launcher in place of the engine, if Spawn is not nil.
	// Path has then no meaning.
	Spawn Spawner
	// Sandbox, with Spawn and no Args, is what the init makes itself, and MountFailed explains a
	// failure; see [sandboxinit.Conn.Make].
	Sandbox     *holder.Sandbox
	MountFailed func(*holder.MountError) error
	// Same, without a launcher, reports whether an init that was started for an earlier Launch can
	// serve this one; the caller also compares what Landlock needs. With nil there are no spares.
	Same func(ctx context.Context, earlier Process) bool
	// Shared, with Sandbox, returns Spawn and Sandbox for a Session with Processes. first is the
	// init that is pid 1 for the others; nil starts that one, and emit then receives events about all.
	Shared func(first Process, emit func(shared.Event)) (Spawner, *holder.Sandbox)
	first  *insideRun // pid 1 of the persistent session of this member

	// Gate, with [Config.Init], starts, before the command, a process that passes connections
	// between its network and the host's, with sockets from inside.
	Gate func(sockets *sandboxinit.Sockets) (Gate, error)
	// Mounts, with [Config.Init], are as in [sandboxinit.Command]. If one is not in its place, the
	// command is started once more.
	Mounts []sandboxinit.Mount
	// Confinement, with [Config.Init], is the command's, without Filter and Scope, which are the
	// Config's.
	Confinement sandboxinit.Confinement
	// OwnRules, with a Landlock, makes directories for the command, and returns rules for them.
	// Inside then writes their names into the command's variables.
	OwnRules func() ([]confine.Rule, error)
	Inside   func(*sandboxinit.Command)
	// NotFound, with [Config.Init], is the hint for a command that is not found inside; it may be
	// empty. Notes returns what to report about one that has started; rooted says whether the kernel
	// enforces [sandboxinit.Confinement.Rooted].
	NotFound string
	Notes    func(rooted bool) []shared.Event
	// Begun, without [Config.Init], is called before the command's start. It may emit events from
	// then on, until Ended returns.
	Begun func(emit func(shared.Event))
	// Ended is called when all that the command started is gone, or its start failed. It is for
	// resources of a command, such as a file that its launcher reads. With [Config.Init], it is called
	// only if this Launch has started a process: not if that failed, nor if a spare serves the command.
	// OwnRules, for example, is called after that.
	Ended func()
}

// member says that the init is for one command of a persistent session, whose pid 1 inherits what it leaves.
func (c *Launch) member() bool { return c.first != nil }

// A Gate passes connections between a sandbox and the host.
type Gate interface {
	// Hear makes emit receive the connections, until stop or Close. session says that other
	// commands may also cause them.
	Hear(emit func(shared.Event), session bool) (stop func())
	// Close is called when everything in the sandbox is gone. After it returns, emit is not called.
	Close() error
}

// A Spawner starts a launcher with exactly these descriptors, from 0 on, an empty environment and
// the directory /. The launcher must die with the engine. If group is not nil, the launcher may
// begin in the control group (version 2) with that directory; else the engine moves it, which costs
// some milliseconds. An error that the caller should see is a [shared.Error].
type Spawner func(ctx context.Context, argv []string, files []*os.File, group *os.File) (Process, error)

// Process is a running launcher. If it is a [ConnectedProcess], its init does not use the descriptors of
// the [Spawner].
type Process interface {
	// Pid is its number while it runs; 0 if a daemon has started it.
	Pid() int
	// Kill kills it and does not wait. The methods may be called concurrently.
	Kill() error
	// Wait waits until it is gone, and is called once. An error says why its end is unknown.
	Wait() (syscall.WaitStatus, error)
}

// A ConnectedProcess is a launcher whose init has connected to the engine by itself, as in a container.
type ConnectedProcess interface {
	Process
	// Control is the engine's end of the control socket. The caller closes it.
	Control() *os.File
}

// forkedProcess is a launcher that is the engine's own child.
type forkedProcess struct{ *os.Process }

func (f forkedProcess) Pid() int { return f.Process.Pid }

func (f forkedProcess) Wait() (syscall.WaitStatus, error) {
	proc.Await(f.Process.Pid)
	state, err := f.Process.Wait()
	if err != nil {
		return 0, err
	}
	return state.Sys().(syscall.WaitStatus), nil
}

// launch starts the launcher, in a control group of its own if a limit needs one. An init that
// makes its sandbox has then begun.
func (s *sandbox) launch(ctx context.Context, limits cgroup.Decision, c *Launch, tty bool, stdio [3]*os.File) (*insideRun, error) {
	if c.Err != nil {
		return nil, unavailable(c.Err.Error())
	}
	if c.Spawn == nil && !filepath.IsAbs(c.Path) {
		return nil, unavailable(fmt.Sprintf("the launcher's path %q is not absolute", c.Path))
	}
	r := &insideRun{sandbox: s, launch: c, exited: make(chan struct{})}
	var err error
	if c.member() {
		r.group = c.first.group
		r.oomKillsBefore = r.group.Killed()
	} else if r.group, err = limits.New(); err != nil {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: "limits", Message: "making a control group: " + err.Error()}
	}
	if err := r.start(ctx, tty, stdio); err != nil {
		if !c.member() {
			r.group.Remove()
		}
		return nil, err
	}
	// Before a child of ours can be reaped, so that its number is its own, and before the init gets
	// the command, so that no part of the command runs outside of the group.
	err = r.group.Add(r.process.Pid())
	go func() {
		r.status, r.lost = r.process.Wait()
		close(r.exited)
	}()
	if err != nil {
		r.observe()
		r.giveUp()
		r.finish()
		sandboxinit.KillOrphans(0)
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: "limits", Message: "entering a control group: " + err.Error()}
	}
	if c.Sandbox != nil {
		box := *c.Sandbox
		box.Groups = r.group.Hierarchies()
		if err := r.conn.Make(&box); err != nil {
			return nil, r.notStarted(ctx, err)
		}
	}
	return r, nil
}

// start starts the process, with the init's descriptors after its own.
func (r *insideRun) start(ctx context.Context, tty bool, stdio [3]*os.File) error {
	s, c := r.sandbox, r.launch
	binary, err1 := s.init.Open()
	null, err2 := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	engineEnd, initEnd, err3 := sandboxinit.Pair()
	stderr, err4 := proc.NewLog()
	err := errors.Join(err1, err2, err3, err4)
	if err != nil {
		err = unavailable("preparing the launcher: " + err.Error())
	} else {
		out := null
		if tty {
			out = stdio[1] // it is shown as /dev/console, so that it has a name inside
		}
		files := append([]*os.File{null, out, stderr.File}, c.ExtraFiles...)
		binaryFD := len(files)
		words := sandboxinit.Argv(binaryFD, binaryFD+1)
		spawn := c.Spawn
		if spawn == nil {
			spawn = s.fork(c, r.group)
		}
		r.process, err = spawn(ctx, slices.Concat(c.Args, words), append(files, binary, initEnd), r.group.Directory())
	}
	frame.CloseFiles([]*os.File{binary, null, initEnd})
	if err != nil {
		engineEnd.Close()
		stderr.Close()
		return err
	}
	if p, ok := r.process.(ConnectedProcess); ok {
		engineEnd.Close()
		engineEnd = p.Control()
	}
	r.stderr, r.conn = stderr, sandboxinit.NewConn(engineEnd)
	return nil
}

// fork starts launchers as the engine's own children, in group if the kernel can.
func (s *sandbox) fork(c *Launch, group *cgroup.Group) Spawner {
	return func(_ context.Context, argv []string, files []*os.File, _ *os.File) (Process, error) {
		attr := sysProcAttr(c.SysProcAttr, s.credential, s.engine.config.initEnds())
		var process *os.Process
		err := group.Start(attr, func() (err error) {
			// The launcher reads these variables outside of the sandbox. nil would mean the
			// engine's own.
			process, err = startProcess(c.Path, argv, &os.ProcAttr{Env: append([]string{}, s.engine.config.Environ...), Dir: "/", Files: files, Sys: attr})
			return err
		})
		if err != nil {
			return nil, launchError(c.Path, s.credential, err)
		}
		return forkedProcess{process}, nil
	}
}
