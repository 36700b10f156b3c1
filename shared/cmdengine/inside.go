//go:build unix

package cmdengine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine/cgroup"
	"github.com/sbxhost/sbxhost/shared/holder"
	"github.com/sbxhost/sbxhost/shared/orphans"
	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// startInside starts a command through an init in a launcher.
func (s *sandbox) startInside(ctx context.Context, cmd *shared.Command, stdio [3]*os.File, emit func(shared.Event)) (Run, []shared.Event, error) {
	run, notes, err := s.tryInside(ctx, cmd, stdio, emit)
	if errors.Is(err, ErrAgain) {
		run, notes, err = s.tryInside(ctx, cmd, stdio, emit) // nothing has run yet
		if e, ok := errors.AsType[*shared.Error](err); ok && errors.Is(err, ErrAgain) {
			err = e // once is enough
		}
	}
	return run, notes, err
}

func (s *sandbox) tryInside(ctx context.Context, cmd *shared.Command, stdio [3]*os.File, emit func(shared.Event)) (Run, []shared.Event, error) {
	var trace []byte
	if cmd.Trace {
		var err error
		if trace, err = s.engine.config.Trace(&s.spec); err != nil {
			return nil, nil, err
		}
	}
	c, err := s.command(ctx, cmd)
	if err != nil {
		return nil, nil, err
	}
	defer closeAll(c.ExtraFiles)
	givePipes(stdio[:], s.credential)
	limits := s.limits
	var r *insideRun
	var notes []shared.Event
	if s.kept != nil {
		notes, err = s.member(ctx, c)
		if err != nil {
			return nil, nil, err
		}
	} else if cmd.Trace && limits.Mechanism(cgroup.PIDs) != "" {
		limits = limits.WithMore(tracerThreads) // which a spare's group has not
	} else {
		r = s.takeSpare(ctx, c)
	}
	spare := r != nil
	if !spare {
		if r, err = s.launch(ctx, limits, c, cmd.TTY, stdio); err != nil {
			return nil, nil, err
		}
	}

	scope := s.spec.Network.Mode == shared.NetworkHost
	if s.engine.config.Scope != nil {
		scope = s.engine.config.Scope(&s.spec)
	}
	command := sandboxinit.Command{
		Args: cmd.Args, Script: cmd.Script, Env: cmd.Env, Dir: cmd.Dir, TTY: cmd.TTY, Scope: scope, Filter: s.filter, Trace: trace, Fresh: s.attached.Fresh,
		Mounts: c.Mounts, Apart: c.first != nil,
	}
	if s.engine.config.Rlimits != nil {
		command.Rlimits = s.engine.config.Rlimits(&s.spec)
	}
	command.Crowded = s.limits.Mechanism(cgroup.PIDs) != "" || s.limits.Mechanism(cgroup.Memory) != ""
	command.Rlimits = append(command.Rlimits, approximations(s.spec.Limits, s.holdings)...)
	if c.first != nil {
		r.ungate = s.kept.listen(emit)
	}
	r.ended = c.Ended
	if c.Inside != nil {
		err = c.Inside(&command)
	}
	started := make(chan struct{})
	go r.disown(started)
	switch {
	case err != nil:
	case c.Sandbox != nil || c.Waits:
		err = r.complete(ctx, c, stdio, emit)
	case c.Gate != nil:
		err = r.begin(ctx, c, r.sockets, emit)
	}
	if err == nil {
		err = r.Conn.Start(ctx, command)
	}
	close(started)
	if err != nil {
		_, unmade := errors.AsType[*holder.MountError](err)
		err = r.notStarted(ctx, err, c.Unmade, s.diagnosis())
		if spare && unmade {
			err = fmt.Errorf("%w: %w", ErrAgain, err) // by what has changed in the meantime, perhaps
		}
		return nil, nil, err
	}
	r.fresh = command.Fresh
	go r.observe() // the reply need not wait for it

	if scope && !r.Conn.Scoped() {
		notes = append(notes, shared.Event{
			Kind:    shared.EventDegraded,
			Message: "this kernel's Landlock cannot keep the command from the host's abstract unix sockets",
			Details: map[string]string{"mechanism": "landlock"},
		})
	}
	return r, notes, nil
}

// insideRun is a command that an init runs inside a launcher.
type insideRun struct {
	name     string
	clearsUp bool
	launcher Launched
	stderr   *tail
	family   family
	group    *cgroup.Group        // nil where no limit needs one
	member   bool                 // of a kept session, whose group it is
	before   uint64               // what of that group was killed before
	ungate   func()               // ends the gate; nil where there is none
	sockets  *sandboxinit.Sockets // of a launcher's init, with a gate
	ended    func()               // of its Launch

	fresh   string       // a directory whose content ends with the command, or ""
	starved uint64       // processes killed for want of memory, once Wait has returned
	used    shared.Usage // what the group has counted, likewise

	exited chan struct{} // closed when the launcher is gone and status and lost are final
	status syscall.WaitStatus
	lost   error // why nobody knows status

	InitRun
	said string // the end of its stderr, once it is finished
}

// complete has the init complete its sandbox, with the gate that c asks for.
func (r *insideRun) complete(ctx context.Context, c *Launch, stdio [3]*os.File, emit func(shared.Event)) error {
	if c.Gate == nil {
		return r.Conn.Complete(stdio, nil)
	}
	sockets, initEnd, err := sandboxinit.NewSockets()
	if err != nil {
		return err
	}
	if err := r.Conn.Complete(stdio, initEnd); err != nil {
		sockets.Close()
		return err
	}
	return r.begin(ctx, c, sockets, emit)
}

// begin begins the gate of c, of sockets that the init makes.
func (r *insideRun) begin(ctx context.Context, c *Launch, sockets *sandboxinit.Sockets, emit func(shared.Event)) error {
	end, err := c.Gate(ctx, sockets, emit)
	if err != nil {
		sockets.Close()
		switch said := r.Conn.GiveUp(); {
		case said != nil:
			return said // for want of which there were no sockets
		case c.Sandbox == nil && sockets.Lost():
			return sandboxinit.ErrInitLost // and its launcher says why
		}
		return err
	}
	r.ungate = func() {
		sockets.Close()
		end()
	}
	return nil
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
			return nil, r.notStarted(ctx, err, c.Unmade, s.diagnosis())
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
		name: name, clearsUp: s.engine.config.initEnds(), sockets: sockets,
		launcher: process, stderr: stderr, group: group, member: c.first != nil, exited: make(chan struct{}),
	}
	if r.member {
		r.before = group.Killed()
	}
	r.InitRun = InitRun{Conn: sandboxinit.NewConn(engineEnd), Gone: r.exited,
		Finish: func() { r.said = r.finish() }, End: r.giveUp, Lost: r.unknown}
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

// observe notes whom the launcher has started, which is to be gone with it. Of a kept session that
// is so for what is killed alone.
func (r *insideRun) observe() {
	if !r.member {
		r.family.observe(r.launcher.Pid(), false, r.exited)
	}
}

// disown ends the wait for an init whose launcher is gone. A launcher that is killed
// at birth can leave a child that waits for a word from it, for ever, and that has the
// init's end of the socket as well as the command's files.
func (r *insideRun) disown(started <-chan struct{}) {
	select {
	case <-started:
		return
	case <-r.exited:
	}
	if r.wasKilled() {
		orphans.Kill(0)
	}
	t := time.NewTimer(Patience) // what an init said last is on its way
	defer t.Stop()
	select {
	case <-started:
	case <-t.C:
		r.Conn.Close()
	}
}

// giveUp ends the launcher without the help of the init, or, where it has to clear
// up, by the end of the init: one that does not run yet finds its line closed.
func (r *insideRun) giveUp() {
	if r.clearsUp {
		r.Conn.Close()
		return
	}
	if r.member { // whom the kernel would leave to pid 1
		r.family.observe(r.launcher.Pid(), true, r.exited)
	}
	r.launcher.Kill()
}

// end is how the launcher ended, nil where it is not known. It must be gone.
func (r *insideRun) end() *syscall.WaitStatus {
	if r.lost != nil {
		return nil
	}
	return &r.status
}

// wasKilled reports whether somebody has ended the launcher, with whoever had
// started it perhaps.
func (r *insideRun) wasKilled() bool { return r.lost != nil || !r.status.Exited() }

// notStarted cleans up after a command that was not started, and says why.
func (r *insideRun) notStarted(ctx context.Context, cause error, explain func(*holder.MountError) error, diagnose func(context.Context, string, *syscall.WaitStatus) error) error {
	var refused *sandboxinit.ExecError
	unmade, _ := errors.AsType[*holder.MountError](cause)
	lost := errors.Is(cause, sandboxinit.ErrInitLost)
	if ctx.Err() != nil || !lost && unmade == nil && !errors.As(cause, &refused) {
		// Nothing inside is known to be about to end.
		r.observe()
		r.giveUp()
	}
	stderr := r.finish()
	if r.wasKilled() {
		orphans.Kill(0) // at the wrong moment perhaps
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case unmade != nil && explain != nil:
		return explain(unmade)
	case errors.As(cause, &refused) && (refused.Op == sandboxinit.OpMounts || refused.Op == sandboxinit.OpLandlock && refused.Path != ""):
		// By a file that was replaced at this moment, perhaps.
		return fmt.Errorf("%w: %w", ErrAgain, execError(refused, whereInside))
	case errors.As(cause, &refused):
		return execError(refused, whereInside)
	case errors.Is(cause, sandboxinit.ErrProtocol):
		return &shared.Error{Kind: shared.ErrBroken, Message: cause.Error()}
	case !lost:
		if told, ok := errors.AsType[*shared.Error](cause); ok {
			return told
		}
		return &shared.Error{Kind: shared.ErrInvalidSpec, Message: cause.Error()}
	}
	if r.member && strings.Contains(stderr, noThread) {
		return &shared.Error{Kind: shared.ErrUnavailable, Attribute: "limits.pids", Message: "as many processes run in the session as may", Hint: "end some of them, or raise the limit"}
	}
	var again error
	if diagnose != nil && r.lost == nil {
		if again = diagnose(ctx, stderr, r.end()); again != nil && !errors.Is(again, ErrAgain) {
			return again
		}
	}
	kind := shared.ErrUnavailable
	if r.wasKilled() {
		kind = shared.ErrBroken // by somebody, this once
	}
	err := error(&shared.Error{Kind: kind, Message: r.launcherEnd() + " before the command was started" + said(stderr)})
	if again != nil {
		err = fmt.Errorf("%w: %w", again, err)
	}
	return err
}

// finish waits for the launcher and all it has started to be gone, whatever it
// takes, and gives the end of its stderr.
func (r *insideRun) finish() string {
	// Now: a scope of systemd's ends with the launcher, which is about to.
	r.starved = r.group.Killed() - r.before
	patience := Patience
	if r.clearsUp {
		patience = ClearingUp
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-r.exited:
	case <-t.C:
		r.observe()
		r.launcher.Kill()
		<-r.exited
	}
	r.family.end()
	if r.ungate != nil {
		r.ungate()
	}
	r.starved = max(r.starved, r.group.Killed()-r.before)
	if !r.member { // the group counts what others of the session use, too
		r.used.CPU, r.used.Memory = r.group.Usage()
		r.group.Remove()
	}
	if r.ended != nil {
		r.ended()
	}
	r.Conn.Close()
	return r.stderr.finish()
}

// unknown is the error for a command whose end nobody has told. A launcher that is
// killed takes the init along, or should.
func (r *insideRun) unknown(error) error {
	if r.lost != nil {
		orphans.Kill(0)
	}
	return &shared.Error{
		Kind:    shared.ErrBroken,
		Message: r.launcherEnd() + " before the command's end was known" + said(r.said),
	}
}

// launcherEnd says how the launcher ended, as the beginning of a sentence.
func (r *insideRun) launcherEnd() string {
	status := r.status
	switch {
	case r.lost != nil:
		return r.lost.Error()
	case status.Signaled():
		return "the launcher " + r.name + " was killed by " + shared.SignalName(status.Signal())
	case status.ExitStatus() > 128 && status.ExitStatus() <= 128+maxSignal:
		// As launchers and shells tell of the end of their child.
		return fmt.Sprintf("the init was killed by %s (the launcher %s exited with status %d)",
			shared.SignalName(syscall.Signal(status.ExitStatus()-128)), r.name, status.ExitStatus())
	}
	return fmt.Sprintf("the launcher %s exited with status %d", r.name, status.ExitStatus())
}

// noThread is what Go's runtime says when it ends a program that gets no thread.
const noThread = "failed to create new OS thread"

func said(stderr string) string {
	if line := quote(stderr); line != "" {
		return "; it said: " + line
	}
	return ""
}

// Usage is what the group has counted, and what the init tells where that has not.
func (r *insideRun) Usage() shared.Usage {
	u := r.InitRun.Usage()
	u.CPU = cmp.Or(r.used.CPU, u.CPU)
	if r.used.Memory > 0 {
		u.Memory, u.Together = r.used.Memory, true
	}
	return u
}

// remarks are what is to be told of a command after its end.
func (r *insideRun) remarks() (events []shared.Event) {
	if r.starved > 0 {
		count := strconv.FormatUint(r.starved, 10)
		events = append(events, shared.Event{Kind: shared.EventViolation,
			Message: "limits.memory was used up; processes that the kernel killed for it: " + count,
			Details: map[string]string{"limit": "memory", "killed": count}})
	}
	if calls := r.Conn.Traced(); len(calls) > 0 {
		events = append(events, tracedEvent(calls))
	}
	if status, err := r.Conn.Wait(); err == nil && status.Left > 0 {
		count, files := strconv.FormatUint(status.Left, 10), " files written to the private home were discarded"
		if status.Left == 1 {
			files = " file written to the private home was discarded"
		}
		events = append(events, shared.Event{Kind: shared.EventDiscarded,
			Message: count + files, Details: map[string]string{"path": r.fresh, "count": count}})
	}
	return events
}
