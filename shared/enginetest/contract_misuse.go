package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
)

// misuseRules are about what callers must not do.
func misuseRules() []rule {
	return []rule{
		{id: "misuse.01", title: "a Command of a bad form is refused as such", run: commandForm},
		{id: "misuse.02", title: "an argument longer than a process can have is an error", run: longArgument},
		{id: "misuse.03", title: "a message longer than the protocol's is an error, and the engine goes on", run: longMessage},
		{id: "misuse.04", title: "a working directory that is not there is an error", run: func(ctx context.Context, b *bench) error {
			sandbox, err := b.open(ctx)
			if err != nil {
				return err
			}
			cmd := b.sh("exit 0")
			cmd.Dir = "/no/such/directory"
			switch _, err := sandbox.Start(ctx, cmd, shared.Stdio{}); {
			case err == nil:
				return errors.New("it was started elsewhere")
			case errors.Is(err, shared.ErrNotFound), errors.Is(err, shared.ErrNotExecutable):
				return fmt.Errorf("the error speaks of the command, which is there: %w", err)
			}
			return b.works(ctx)
		}},
		{id: "misuse.05", title: "a terminal that is none is an error", run: noTerminal},
		{id: "misuse.06", title: "ids that the engine has not given are errors, but to Close", process: true, run: unknownIDs},
		{id: "misuse.07", title: "a signal that is none is an error, and the command goes on", run: noSignal},
	}
}

// crowdRules are about many at once.
func crowdRules() []rule {
	return []rule{
		{id: "crowd.01", title: "50 commands at once in one sandbox", run: manyCommands},
		{id: "crowd.02", title: "20 sandboxes at once", run: manySandboxes},
		{id: "crowd.03", title: "a Start that races with Close leaves nothing", run: startAndClose},
		{id: "crowd.04", title: "signals from many callers at once", run: manySignals},
	}
}

// works shows that the engine still does.
func (b *bench) works(ctx context.Context) error {
	r, err := b.once(ctx, b.sh("echo still here"), nil)
	if err == nil && r.stdout != "still here\n" {
		err = fmt.Errorf("%q", r.stdout)
	}
	if err != nil {
		return fmt.Errorf("afterwards: %w", err)
	}
	return nil
}

func commandForm(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for name, change := range map[string]func(*shared.Command){
		"no argv and no script":     func(c *shared.Command) { c.Args = nil },
		"a NUL in an argument":      func(c *shared.Command) { c.Args = append(c.Args, "a\x00b") },
		"a NUL in a script":         func(c *shared.Command) { c.Script = "a\x00b" },
		"a variable without =":      func(c *shared.Command) { c.Env = []string{"NAME"} },
		"a variable without a name": func(c *shared.Command) { c.Env = []string{"=x"} },
		"a NUL in a variable":       func(c *shared.Command) { c.Env = []string{"A=\x00"} },
		"a relative directory":      func(c *shared.Command) { c.Dir = "tmp" },
		"no directory":              func(c *shared.Command) { c.Dir = "" },
		"a directory with ..":       func(c *shared.Command) { c.Dir = "/tmp/.." },
	} {
		cmd := b.sh("exit 0")
		change(&cmd)
		p, err := sandbox.Start(ctx, cmd, shared.Stdio{})
		if err == nil {
			p.Wait(ctx)
		}
		if err := wantKind("Start", err, shared.ErrInvalidSpec); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		_, err = sandbox.Plan(ctx, cmd)
		if err := wantKind("Plan", err, shared.ErrInvalidSpec); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(append(errs, b.works(ctx))...)
}

func longArgument(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	// 128 KiB is Linux's limit for one, some MiB any system's for all.
	if p, err := sandbox.Start(ctx, b.sh("exit 0", strings.Repeat("x", 16<<20)), shared.Stdio{}); err == nil {
		p.Wait(ctx)
		return errors.New("it was started")
	} else if errors.Is(err, shared.ErrEngineLost) || errors.Is(err, shared.ErrBroken) {
		return err
	}
	return b.works(ctx)
}

func longMessage(ctx context.Context, b *bench) error {
	if b.suite.options.Launch == nil {
		return &absentError{"the engine runs in this process"}
	}
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	cmd := b.sh("")
	cmd.Args, cmd.Script = nil, ":\n#"+strings.Repeat("x", 80<<20)
	if p, err := sandbox.Start(ctx, cmd, shared.Stdio{}); err == nil {
		p.Wait(ctx)
		return errors.New("it was started")
	} else if errors.Is(err, shared.ErrEngineLost) {
		return err
	}
	return b.works(ctx)
}

// noTerminal asks for a terminal without having one.
func noTerminal(ctx context.Context, b *bench) error {
	if b.suite.info.Features.Has(shared.FeatureTTYEngine) {
		return &absentError{"the engine makes the terminal"}
	}
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	cmd := b.sh("exit 0")
	cmd.TTY = true
	p, err := sandbox.Start(ctx, cmd, shared.Stdio{})
	if err == nil {
		p.Wait(ctx)
		return errors.New("it was started")
	}
	return b.works(ctx)
}

// unknownIDs names sandboxes and processes that there never were.
func unknownIDs(ctx context.Context, b *bench) error {
	l, err := b.launch(ctx)
	if err != nil {
		return err
	}
	b.engine = l
	ctx, cancel := context.WithTimeout(ctx, b.patience())
	defer cancel()
	var errs []error
	for _, id := range []string{"", "sbxhost-no-such-id", "18446744073709551615", strings.Repeat("x", 100_000)} {
		for call, err := range l.CallUnknown(ctx, id) {
			ok := err != nil && !errors.Is(err, shared.ErrEngineLost) && ctx.Err() == nil
			switch call {
			case "Close":
				ok = err == nil
			case "Plan", "Run":
				ok = errors.Is(err, shared.ErrClosed)
			case "Signal":
				ok = errors.Is(err, os.ErrProcessDone) || errors.Is(err, shared.ErrClosed)
			}
			if !ok {
				errs = append(errs, fmt.Errorf("%s of %q: %v", call, id[:min(len(id), 20)], err))
			}
		}
	}
	return errors.Join(append(errs, b.works(ctx))...)
}

func noSignal(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	p, _, err := b.started(ctx, sandbox, b.sh("trap 'exit 5' TERM; echo"+forever), nil)
	if err != nil {
		return err
	}
	var errs []error
	for _, sig := range []syscall.Signal{-1, -9, 999} {
		if err := p.Signal(ctx, sig); err == nil || errors.Is(err, os.ErrProcessDone) || errors.Is(err, shared.ErrEngineLost) {
			errs = append(errs, fmt.Errorf("signal %d: %v", sig, err))
		}
	}
	if err := p.Signal(ctx, syscall.SIGTERM); err != nil {
		return errors.Join(append(errs, err)...)
	}
	r, err := p.Wait(ctx)
	if err == nil && r.Status.Code != 5 {
		err = fmt.Errorf("it ended with %v", r.Status)
	}
	return errors.Join(append(errs, err)...)
}

func manyCommands(ctx context.Context, b *bench) error {
	n := b.many(50, 12)
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			r, w, err := os.Pipe()
			if err != nil {
				errs[i] = err
				return
			}
			defer r.Close()
			fed := feed(w, strings.NewReader(fmt.Sprintln("input", i)))
			got, err := b.run(ctx, sandbox, b.sh(`cat; echo "$1" >&2; exit "$1"`, fmt.Sprint(i)), r)
			if err == nil && (got.stdout != fmt.Sprintln("input", i) || got.stderr != fmt.Sprintln(i)) {
				err = fmt.Errorf("%q, %q", got.stdout, got.stderr)
			}
			if err == nil {
				err = errors.Join(<-fed, got.exits(shared.ExitStatus{Code: i}))
			}
			if err != nil {
				errs[i] = fmt.Errorf("number %d: %w", i, err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func manySandboxes(ctx context.Context, b *bench) error {
	n := b.many(20, 6)
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			sandbox, err := b.engine.Open(ctx, b.spec())
			if err != nil {
				errs[i] = err
				return
			}
			got, err := b.run(ctx, sandbox, b.sh("exit "+fmt.Sprint(i)), nil)
			if err == nil {
				err = got.exits(shared.ExitStatus{Code: i})
			}
			errs[i] = errors.Join(err, sandbox.Close(ctx))
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func startAndClose(ctx context.Context, b *bench) error {
	for range b.many(4, 1) {
		sandbox, err := b.engine.Open(ctx, b.spec())
		if err != nil {
			return err
		}
		r, w, err := b.pipe()
		if err != nil {
			return err
		}
		var group sync.WaitGroup
		const n = 6
		errs := make([]error, n)
		first := make(chan struct{}, n)
		for i := range n {
			group.Go(func() {
				p, err := sandbox.Start(ctx, b.sh("exec sleep 60"), shared.Stdio{Stdout: w})
				first <- struct{}{}
				if err != nil {
					errs[i] = wantKind("Start", err, shared.ErrClosed)
					return
				}
				result, err := p.Wait(ctx)
				if err == nil && result.Status.Signal != syscall.SIGKILL {
					err = fmt.Errorf("it ended with %v", result.Status)
				}
				errs[i] = err
			})
		}
		<-first
		err = sandbox.Close(ctx)
		group.Wait()
		if err := errors.Join(append(errs, err)...); err != nil {
			return err
		}
		w.Close()
		if err := b.ends(r); err != nil {
			return err
		}
	}
	return nil
}

func manySignals(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	p, _, err := b.started(ctx, sandbox, b.sh("echo; exec sleep 60"), nil)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() { p.Signal(ctx, syscall.SIGTERM) })
	}
	group.Wait()
	r, err := p.Wait(ctx)
	if err == nil && r.Status.Signal != syscall.SIGTERM {
		err = fmt.Errorf("it ended with %v", r.Status)
	}
	return err
}
