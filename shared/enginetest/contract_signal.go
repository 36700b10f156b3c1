package enginetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// deadly are the signals whose default action ends a process everywhere.
var deadly = []syscall.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE,
	syscall.SIGKILL, syscall.SIGUSR1, syscall.SIGSEGV, syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGTERM,
	syscall.SIGXCPU, syscall.SIGXFSZ, syscall.SIGVTALRM, syscall.SIGPROF, syscall.SIGSYS,
}

func deaths(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for i, sig := range deadly {
		if i%b.many(1, 4) != 0 {
			continue
		}
		// Not the shell's own death: some ignore SIGQUIT.
		cmd := b.command("die", strconv.Itoa(int(sig)))
		cmd.Args = append(b.sh(`ulimit -c 0; exec "$@"`).Args, cmd.Args...)
		r, err := b.run(ctx, sandbox, cmd, nil)
		if err == nil {
			err = r.exits(shared.ExitStatus{Signal: sig}) // without a core: see die
		}
		if err == nil && r.TimedOut {
			err = errors.New("no time was up")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%v: %w", sig, err))
		}
	}
	return errors.Join(errs...)
}

func delivered(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range []struct {
		script string
		sig    syscall.Signal
		want   shared.ExitStatus
	}{
		{"echo" + forever, syscall.SIGHUP, shared.ExitStatus{Signal: syscall.SIGHUP}},
		{"echo" + forever, syscall.SIGTERM, shared.ExitStatus{Signal: syscall.SIGTERM}},
		{"echo" + forever, syscall.SIGUSR1, shared.ExitStatus{Signal: syscall.SIGUSR1}},
		{"trap '' TERM; echo" + forever, syscall.SIGKILL, shared.ExitStatus{Signal: syscall.SIGKILL}},
		{"trap 'exit 7' TERM; echo" + forever, syscall.SIGTERM, shared.ExitStatus{Code: 7}},
		{"trap 'exit 8' INT; echo" + forever, syscall.SIGINT, shared.ExitStatus{Code: 8}},
		{"trap 'exit 9' WINCH; echo" + forever, syscall.SIGWINCH, shared.ExitStatus{Code: 9}},
	} {
		p, _, err := b.started(ctx, sandbox, b.sh(c.script), nil)
		if err != nil {
			return err
		}
		if err := p.Signal(ctx, c.sig); err != nil {
			errs = append(errs, fmt.Errorf("%v: %w", c.sig, err))
		}
		r, err := p.Wait(ctx)
		if err == nil && r.Status != c.want {
			err = fmt.Errorf("it ended with %v and not with %v", r.Status, c.want)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%v: %w", c.sig, err))
		}
	}
	return errors.Join(errs...)
}

// everySignal sends each to a command that says which it gets.
func everySignal(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	p, out, err := b.started(ctx, sandbox, b.command("catch"), nil)
	if err != nil {
		return err
	}
	told := map[string]bool{}
	wait := func(sig syscall.Signal) error {
		for !told[strconv.Itoa(int(sig))] {
			line, err := out.next()
			if err != nil {
				return fmt.Errorf("signal %d did not come, but of them %v: %w", sig, slices.Sorted(maps.Keys(told)), err)
			}
			told[strings.TrimSpace(line)] = true
		}
		return nil
	}
	for _, sig := range catchable() {
		if err := p.Signal(ctx, sig); err != nil {
			return fmt.Errorf("signal %d: %w", sig, err)
		}
		if err := wait(sig); err != nil {
			return err
		}
	}
	clear(told)
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGUSR1} {
		if err := p.Signal(ctx, sig); err != nil {
			return fmt.Errorf("signal %d: %w", sig, err)
		}
	}
	// What is stopped gets nothing, however long one waits.
	said := make(chan error, 1)
	go func() { said <- wait(syscall.SIGUSR1) }()
	select {
	case err := <-said:
		return errors.Join(errors.New("it was stopped, and goes on"), err)
	case <-time.After(200 * time.Millisecond):
	}
	if err := p.Signal(ctx, syscall.SIGCONT); err != nil {
		return fmt.Errorf("SIGCONT: %w", err)
	}
	if err := errors.Join(<-said, wait(syscall.SIGCONT)); err != nil {
		return fmt.Errorf("it does not go on: %w", err)
	}
	_, err = p.Wait(endNow(ctx, p))
	return err
}

func groupSignal(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	// The shell does nothing about the signal; its child says that it got it.
	p, out, err := b.started(ctx, sandbox, b.sh(`trap ':' USR1; sh -c 'trap "echo child; exit 0" USR1; echo; while :; do sleep 0.02; done' & wait; wait; exit 0`), nil)
	if err != nil {
		return err
	}
	if err := p.Signal(ctx, syscall.SIGUSR1); err != nil {
		return err
	}
	line, err := out.next()
	if err != nil || line != "child\n" {
		return fmt.Errorf("the child did not get it: %q, %v", line, err)
	}
	p.Signal(ctx, syscall.SIGKILL)
	_, err = p.Wait(ctx)
	return err
}

func stopped(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	p, _, err := b.started(ctx, sandbox, b.sh("echo; kill -STOP $$; exit 1"), nil)
	if err != nil {
		return err
	}
	if err := p.Signal(ctx, syscall.SIGKILL); err != nil {
		return err
	}
	r, err := p.Wait(ctx)
	if err == nil && r.Status.Signal != syscall.SIGKILL && r.Status.Code != 1 {
		err = fmt.Errorf("it ended with %v", r.Status)
	}
	return err
}
