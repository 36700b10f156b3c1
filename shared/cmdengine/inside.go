package cmdengine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/sbxhost/sbxhost/internal/engine/cgroup"
	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/confine"
	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/shared"
)

// startInside starts a command through an init in a launcher.
func (s *sandbox) startInside(ctx context.Context, cmd *shared.Command, stdio [3]*os.File, emit func(shared.Event)) (runningCommand, []shared.Event, error) {
	run, notes, err := s.tryInside(ctx, cmd, stdio, emit)
	if errors.Is(err, ErrAgain) {
		run, notes, err = s.tryInside(ctx, cmd, stdio, emit) // nothing has run yet
		if e, ok := errors.AsType[*shared.Error](err); ok && errors.Is(err, ErrAgain) {
			err = e // only one retry
		}
	}
	return run, notes, err
}

func (s *sandbox) tryInside(ctx context.Context, cmd *shared.Command, stdio [3]*os.File, emit func(shared.Event)) (runningCommand, []shared.Event, error) {
	command, err := s.forInit(cmd)
	if err != nil {
		return nil, nil, err
	}
	c, err := s.command(cmd)
	if err != nil {
		return nil, nil, err
	}
	defer frame.CloseFiles(c.ExtraFiles)
	givePipes(stdio[:], s.credential)
	r, notes, err := s.initFor(ctx, c, cmd, stdio)
	if err != nil && c.first != nil && exiting(c.first.process.Pid()) {
		return nil, nil, fmt.Errorf("%w: %w", ErrAgain, err)
	} else if err != nil {
		return nil, nil, err
	}
	command.Mounts, command.Apart = c.Mounts, c.member()
	if c.member() {
		r.closeGate = s.session.listen(emit)
	}
	if command.Confined = r.confinement != nil; !command.Confined {
		command.Confinement, err = s.confinement(c)
	}
	if err == nil {
		err = r.begin(ctx, stdio, emit, func(ctx context.Context) error {
			if r.launch.Inside != nil { // while the init, which now has the command's stdio, wakes up
				r.launch.Inside(command)
			}
			return r.conn.Start(ctx, *command)
		})
	}
	if err != nil {
		_, unmade := errors.AsType[*holder.MountError](err)
		err = r.notStarted(ctx, err)
		if command.Confined && unmade {
			err = fmt.Errorf("%w: %w", ErrAgain, err) // perhaps because of a change in the meantime
		}
		return nil, nil, err
	}
	go r.observe() // the reply need not wait for this

	if scope := command.Scope || r.confinement != nil && r.confinement.Scope; scope && !r.conn.Scoped() {
		notes = append(notes, shared.Event{
			Kind:    shared.EventDegraded,
			Message: "this kernel's Landlock cannot keep the command from the host's abstract unix sockets",
			Details: map[string]string{"mechanism": "landlock"},
		})
	}
	if c.Notes != nil {
		notes = append(notes, c.Notes(r.conn.Rooted())...)
	}
	return r, notes, nil
}

// forInit is the init's description of a command, without what its launcher knows.
func (s *sandbox) forInit(cmd *shared.Command) (*sandboxinit.Command, error) {
	config := &s.engine.config
	command := &sandboxinit.Command{
		Args: cmd.Args, Script: cmd.Script, Env: cmd.Env, Dir: cmd.Dir, TTY: cmd.TTY, Fresh: s.attached.Fresh,
		SharedLimits: s.limits.Mechanism(cgroup.PIDs) != "" || s.limits.Mechanism(cgroup.Memory) != "",
	}
	command.Rlimits = append(sandboxinit.Rlimits(s.spec.Limits.OpenFiles), approximations(s.spec.Limits, s.holdings)...)
	var err error
	if cmd.Trace {
		command.Trace, err = config.Trace(&s.spec)
	}
	return command, err
}

// confinement is what the init of a Launch denies to its command.
func (s *sandbox) confinement(c *Launch) (all sandboxinit.Confinement, err error) {
	all = c.Confinement
	// A Landlock has a scope itself. With another network there are no host sockets.
	all.Filter, all.Scope = s.filter, s.spec.Network.Mode == shared.NetworkHost && all.Landlock == nil
	if all.Landlock != nil {
		var own []confine.Rule
		own, err = c.OwnRules()
		all.Landlock = all.Landlock.With(own)
	}
	return all, err
}

// initFor returns the init that runs cmd: a new member of a persistent session, a spare, or a new
// one.
func (s *sandbox) initFor(ctx context.Context, c *Launch, cmd *shared.Command, stdio [3]*os.File) (r *insideRun, notes []shared.Event, err error) {
	limits := s.limits
	switch {
	case s.session != nil:
		if notes, err = s.member(ctx, c); err != nil {
			return nil, nil, err
		}
	case cmd.Trace: // a spare's thread for the command is not the tracer's
		if limits.Mechanism(cgroup.PIDs) != "" {
			limits = limits.WithMore(tracerThreads)
		}
	default:
		if r = s.takeSpare(ctx, c); r != nil {
			return r, nil, nil
		}
	}
	r, err = s.launch(ctx, limits, c, cmd.TTY, stdio)
	return r, notes, err
}

// notStarted cleans up after a command that did not start, and returns why.
func (r *insideRun) notStarted(ctx context.Context, cause error) error {
	refused, _ := errors.AsType[*sandboxinit.ExecError](cause)
	unmade, _ := errors.AsType[*holder.MountError](cause)
	lost := errors.Is(cause, sandboxinit.ErrInitLost)
	if ctx.Err() != nil || !lost && unmade == nil && refused == nil {
		// The processes inside may not end by themselves.
		r.observe()
		r.giveUp()
	}
	r.finish()
	if r.wasKilled() {
		sandboxinit.KillOrphans(0) // a kill at the wrong moment, perhaps
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case unmade != nil && r.launch.MountFailed != nil:
		return r.launch.MountFailed(unmade)
	case refused != nil && (refused.Op == sandboxinit.OpMounts || refused.Op == sandboxinit.OpLandlock && refused.Path != ""):
		// A file may have been replaced at this moment.
		return fmt.Errorf("%w: %w", ErrAgain, execError(refused, whereInside))
	case refused != nil:
		explained := execError(refused, whereInside)
		if explained.Kind == shared.ErrNotFound {
			explained.Hint = cmp.Or(explained.Hint, r.launch.NotFound)
		}
		return explained
	case errors.Is(cause, sandboxinit.ErrProtocol):
		return broken(cause.Error())
	case !lost:
		if explained, ok := errors.AsType[*shared.Error](cause); ok {
			return explained
		}
		return invalid("", "", "%v", cause)
	}
	var again error
	if diagnose := r.sandbox.attached.Diagnose; diagnose != nil && r.lost == nil {
		if again = diagnose(r.output, &r.status); again != nil && !errors.Is(again, ErrAgain) {
			return again
		}
	}
	err := unavailable(r.launcherEnd() + " before it reported that the command was started" + stderrSuffix(r.output))
	if r.wasKilled() {
		err.Kind = shared.ErrBroken // somebody killed it, this once
	}
	if again != nil {
		return fmt.Errorf("%w: %w", again, err)
	}
	return err
}
