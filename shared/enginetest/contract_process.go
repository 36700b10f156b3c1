package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// processRules are about an engine in a process of its own.
func processRules() []rule {
	const lossTitle = "a killed engine is reported as lost, and its command is gone"
	return []rule{
		{id: "process.01", title: lossTitle, process: true, run: func(ctx context.Context, b *bench) error {
			return b.lose(ctx, true, func(l *shared.Launched) error { return l.Process().Signal(syscall.SIGKILL) })
		}},
		{id: "process.02", title: "an engine that is asked to end ends, and its command is gone", process: true, run: func(ctx context.Context, b *bench) error {
			return b.lose(ctx, false, func(l *shared.Launched) error { return l.Process().Signal(syscall.SIGTERM) })
		}},
		{id: "process.03", title: "an engine whose host is gone ends, and its command is gone", process: true, run: func(ctx context.Context, b *bench) error {
			return b.lose(ctx, false, func(l *shared.Launched) error {
				l.Disconnect()
				return nil
			})
		}},
		{id: "process.04", title: "two processes of one engine do not know each other", process: true, run: twoProcesses},
		{id: "process.05", title: "what a command writes is not the engine's log or handshake", process: true, run: func(ctx context.Context, b *bench) error {
			l, err := b.launch(ctx)
			if err != nil {
				return err
			}
			b.engine = l
			r, err := b.once(ctx, b.sh("echo '1|1|unix|/x|grpc'; echo '{\"@level\":\"error\"}' >&2; ls -l /proc/self/fd >/dev/null"), nil)
			if err == nil && r.stdout != "1|1|unix|/x|grpc\n" {
				err = fmt.Errorf("%q", r.stdout)
			}
			return errors.Join(err, b.works(ctx))
		}},
		{id: "process.06", title: "calls without the host's token are refused", process: true, run: func(ctx context.Context, b *bench) error {
			l, err := b.launch(ctx)
			if err != nil {
				return err
			}
			b.engine = l
			ctx, cancel := context.WithTimeout(ctx, b.patience())
			defer cancel()
			return errors.Join(l.CallAsStranger(ctx), b.works(ctx))
		}},
		{id: "process.07", title: "what a command has taken of the engine is given back: descriptors, processes", process: true, run: givenBack},
	}
}

// launch starts one more process of the engine.
func (b *bench) launch(ctx context.Context) (*shared.Launched, error) {
	l, err := b.suite.options.Launch(ctx)
	if err == nil {
		b.later(l.Kill)
	}
	return l, err
}

// lose ends an engine's process while a command runs that has left a daemon. Whether
// the loss must be told depends on how it came.
func (b *bench) lose(ctx context.Context, told bool, end func(*shared.Launched) error) error {
	l, err := b.launch(ctx)
	if err != nil {
		return err
	}
	sandbox, err := l.Open(ctx, b.spec())
	if err != nil {
		return err
	}
	r, w, err := b.pipe()
	if err != nil {
		return err
	}
	script := "echo; trap '' TERM HUP; sleep 61"
	if !b.suite.unconfined {
		script = "(setsid sh -c 'trap \"\" TERM HUP; sleep 61' &); " + script
	}
	p, err := sandbox.Start(ctx, b.sh(script), shared.Stdio{Stdout: w})
	w.Close()
	if err != nil {
		return err
	}
	if _, err := r.Read(make([]byte, 1)); err != nil {
		return err
	}
	if err := end(l); err != nil {
		return err
	}
	if !b.suite.unconfined || !told {
		if err := b.ends(r); err != nil {
			return err
		}
	}
	if _, err := p.Wait(ctx); told && !errors.Is(err, shared.ErrEngineLost) {
		return fmt.Errorf("waiting: got %v, want %v", err, shared.ErrEngineLost)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(b.patience())
	for !l.Exited() {
		select {
		case <-tick.C:
		case <-late:
			return errors.New("the engine's process goes on")
		}
	}
	return nil
}

// ends wants the end of what somebody still may write to.
func (b *bench) ends(r *os.File) error {
	r.SetReadDeadline(time.Now().Add(b.patience()))
	buf := make([]byte, 512)
	for {
		if _, err := r.Read(buf); errors.Is(err, os.ErrDeadlineExceeded) {
			return errors.New("something still holds the command's output")
		} else if err != nil {
			return nil
		}
	}
}

func twoProcesses(ctx context.Context, b *bench) error {
	first, err := b.launch(ctx)
	if err != nil {
		return err
	}
	second, err := b.launch(ctx)
	if err != nil {
		return err
	}
	b.engine = second
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	p, _, err := b.started(ctx, sandbox, b.sh("trap 'exit 5' TERM; echo"+forever), nil)
	if err != nil {
		return err
	}
	first.Kill()
	if err := p.Signal(ctx, syscall.SIGTERM); err != nil {
		return err
	}
	r, err := p.Wait(ctx)
	if err == nil && r.Status.Code != 5 {
		err = fmt.Errorf("it ended with %v", r.Status)
	}
	return err
}

// givenBack lets an engine that has done nothing else run commands and counts what is
// left of each.
func givenBack(ctx context.Context, b *bench) error {
	l, err := b.launch(ctx)
	if err != nil {
		return err
	}
	b.engine = l
	n := b.many(24, 8)
	commands := func() error {
		for range n {
			if err := b.works(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	if err := commands(); err != nil { // of which a part stays for good reasons
		return err
	}
	before, err := holdings(l.Process().Pid)
	if err == nil {
		err = commands()
	}
	if err != nil {
		return err
	}
	// An engine may give back after the end was told.
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(b.patience())
	for {
		after, err := holdings(l.Process().Pid)
		if err != nil {
			return err
		}
		var grown []string
		for what, have := range after {
			if have-before[what] >= n/2 {
				grown = append(grown, fmt.Sprintf("%d %s before and %d after %d more commands", before[what], what, have, n))
			}
		}
		if len(grown) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-late:
			slices.Sort(grown)
			return errors.New("the engine's process has " + strings.Join(grown, ", "))
		}
	}
}
