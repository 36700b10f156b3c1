package enginetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// endRules are about how commands end.
func endRules() []rule {
	return []rule{
		{id: "end.01", title: "every exit code from 0 to 255", run: exitCodes},
		{id: "end.02", title: "death by every signal that kills", run: deaths},
		{id: "end.03", title: "signals reach the command, and a handler runs", run: delivered},
		{id: "end.04", title: "signals reach the command's children in its group", run: groupSignal},
		{id: "end.05", title: "after the end Signal gives ErrProcessDone", run: func(ctx context.Context, b *bench) error {
			sandbox, err := b.open(ctx)
			if err != nil {
				return err
			}
			p, err := sandbox.Start(ctx, b.command("exit", "0"), shared.Stdio{})
			if err != nil {
				return err
			}
			if _, err := p.Wait(ctx); err != nil {
				return err
			}
			return errors.Join(wantKind("SIGTERM", p.Signal(ctx, syscall.SIGTERM), os.ErrProcessDone), wantKind("SIGKILL", p.Signal(ctx, syscall.SIGKILL), os.ErrProcessDone))
		}},
		{id: "end.06", title: "Wait gives the same each time, and its context ends the call alone", run: waits},
		{id: "end.07", title: "the context of Start covers the call alone", run: startContext},
		{id: "end.08", title: "a timeout runs handlers, then kills", run: timeouts},
		{id: "end.09", title: "a background child that holds stdout does not delay Wait", run: background},
		{id: "end.10", title: "Events is closed at the end, and unread events delay nobody", run: events},
		{id: "end.11", title: "Close ends what runs, and nothing else", run: closes},
		{id: "end.12", title: "after Close, Start and Plan give ErrClosed, and Close nothing", run: closed},
		{id: "end.13", title: "a stopped command can be killed", run: stopped},
		{id: "end.14", title: "every signal that can be caught, and stop and continue", run: everySignal},
	}
}

func exitCodes(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	errs := make([]error, 256)
	slots := make(chan struct{}, 4)
	for code := 0; code < 256; code += b.many(1, 17) { // which divides 255
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			r, err := b.run(ctx, sandbox, b.sh("exit "+strconv.Itoa(code)), nil)
			if err == nil {
				err = r.exits(shared.ExitStatus{Code: code})
			}
			if err == nil && (r.TimedOut || r.Duration <= 0) {
				err = fmt.Errorf("timed out: %v, duration: %v", r.TimedOut, r.Duration)
			}
			if err != nil {
				errs[code] = fmt.Errorf("exit %d: %w", code, err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// lines are what a command writes, each of which may take one step's time.
type lines struct {
	r        *os.File
	buffered *bufio.Reader
	patience time.Duration
}

func (l *lines) next() (string, error) {
	l.r.SetReadDeadline(time.Now().Add(l.patience))
	return l.buffered.ReadString('\n')
}

// started starts a command and waits for the first line that it writes.
func (b *bench) started(ctx context.Context, sandbox shared.Sandbox, cmd shared.Command, stdin *os.File) (shared.Process, *lines, error) {
	r, w, err := b.pipe()
	if err != nil {
		return nil, nil, err
	}
	p, err := sandbox.Start(ctx, cmd, shared.Stdio{Stdin: stdin, Stdout: w})
	w.Close()
	if err != nil {
		return nil, nil, fmt.Errorf("starting: %w", err)
	}
	out := &lines{r, bufio.NewReader(r), b.patience()}
	if _, err := out.next(); err != nil {
		return nil, nil, fmt.Errorf("the command says nothing: %w", err)
	}
	return p, out, nil
}

const forever = "; while :; do sleep 0.02; done"

func waits(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	p, _, err := b.started(ctx, sandbox, b.sh("trap 'exit 6' TERM; echo"+forever), nil)
	if err != nil {
		return err
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := p.Wait(over); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("with a context that is over: %v", err)
	}
	if err := p.Signal(ctx, syscall.SIGTERM); err != nil {
		return fmt.Errorf("the end of Wait's context ended the command: %w", err)
	}
	var results [4]shared.Result
	var group sync.WaitGroup
	errs := make([]error, len(results))
	for i := range results {
		group.Go(func() { results[i], errs[i] = p.Wait(ctx) })
	}
	group.Wait()
	for i, r := range results {
		if errs[i] != nil || r != results[0] || r.Status.Code != 6 {
			return fmt.Errorf("wait number %d: %+v, %v", i, r, errs[i])
		}
	}
	for range 2 {
		if r, err := p.Wait(ctx); err != nil || r != results[0] {
			return fmt.Errorf("waiting once more: %+v, %v", r, err)
		}
	}
	return nil
}

func startContext(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	r, w, err := b.pipe()
	if err != nil {
		return err
	}
	short, cancel := context.WithCancel(ctx)
	p, err := sandbox.Start(short, b.sh("read x; exit 5"), shared.Stdio{Stdin: r})
	cancel()
	if err != nil {
		return err
	}
	// An engine that ends the command with the context has the time of another
	// command to do so.
	if r, err := b.run(ctx, sandbox, b.sh(":"), nil); err != nil || r.Status.Code != 0 {
		return errors.Join(fmt.Errorf("another command: %v", r), err)
	}
	if _, err := w.WriteString("go on\n"); err != nil {
		return err
	}
	result, err := p.Wait(ctx)
	if err == nil && result.Status.Code != 5 {
		err = fmt.Errorf("it ended with %v when Start's context did", result.Status)
	}
	if err != nil {
		return err
	}
	if _, err := sandbox.Start(short, b.sh(":"), shared.Stdio{}); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("starting with a context that is over: %v", err)
	}
	return nil
}

func timeouts(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range []struct {
		name, script   string // what it writes says that it is as it should be when the time is up
		timeout, grace time.Duration
		want           shared.ExitStatus
		timedOut       bool
	}{
		{"in time", "echo; exit 4", time.Minute, time.Minute, shared.ExitStatus{Code: 4}, false},
		{"handler", "trap 'exit 7' TERM; echo" + forever, 500 * time.Millisecond, 20 * time.Second, shared.ExitStatus{Code: 7}, true},
		{"no handler", "echo; exec sleep 60", 100 * time.Millisecond, 20 * time.Second, shared.ExitStatus{Signal: syscall.SIGTERM}, true},
		{"ignored", "trap '' TERM; echo" + forever, 500 * time.Millisecond, 200 * time.Millisecond, shared.ExitStatus{Signal: syscall.SIGKILL}, true},
		{"no grace", "trap 'exit 7' TERM; echo" + forever, 500 * time.Millisecond, 0, shared.ExitStatus{Signal: syscall.SIGKILL}, true},
	} {
		cmd := b.sh(c.script)
		cmd.Timeout, cmd.Grace = c.timeout, c.grace
		r, err := b.run(ctx, sandbox, cmd, nil)
		for err == nil && r.stdout == "" && cmd.Timeout < b.patience()/2 { // a machine that is slow now
			cmd.Timeout *= 4
			r, err = b.run(ctx, sandbox, cmd, nil)
		}
		if err == nil && (r.Status != c.want || r.TimedOut != c.timedOut) {
			err = fmt.Errorf("%v, timed out: %v; want %v, %v", r.Status, r.TimedOut, c.want, c.timedOut)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	return errors.Join(errs...)
}

func background(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	r, err := b.run(ctx, sandbox, b.sh("sleep 60 & echo done; exit 3"), nil)
	if err != nil {
		return err
	}
	if took := time.Since(begin); took > b.patience() {
		return fmt.Errorf("it took %v", took)
	}
	if r.stdout != "done\n" {
		return fmt.Errorf("stdout: %q", r.stdout)
	}
	return r.exits(shared.ExitStatus{Code: 3})
}

func events(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	p, err := sandbox.Start(ctx, b.sh("exit 2"), shared.Stdio{})
	if err != nil {
		return err
	}
	if _, err := p.Wait(ctx); err != nil {
		return err
	}
	channel := p.Events()
	for {
		select {
		case _, ok := <-channel:
			if !ok {
				return nil
			}
		case <-time.After(b.patience()):
			return errors.New("the channel is open after the end")
		}
	}
}

func closes(ctx context.Context, b *bench) error {
	mine, err := b.open(ctx)
	if err != nil {
		return err
	}
	other, err := b.open(ctx)
	if err != nil {
		return err
	}
	p, out, err := b.started(ctx, mine, b.sh("trap '' TERM; echo"+forever), nil)
	if err != nil {
		return err
	}
	survivor, _, err := b.started(ctx, other, b.sh("trap 'exit 5' TERM; echo"+forever), nil)
	if err != nil {
		return err
	}
	if err := mine.Close(ctx); err != nil {
		return err
	}
	r, err := p.Wait(ctx)
	if err != nil || r.Status.Signal != syscall.SIGKILL || r.TimedOut {
		return fmt.Errorf("what ran: %+v, %v", r, err)
	}
	if _, err := out.next(); err == nil {
		return errors.New("it still writes")
	}
	if err := survivor.Signal(ctx, syscall.SIGTERM); err != nil {
		return fmt.Errorf("a command of another sandbox: %w", err)
	}
	if r, err = survivor.Wait(ctx); err != nil || r.Status.Code != 5 {
		return fmt.Errorf("a command of another sandbox: %+v, %v", r, err)
	}
	return nil
}

func closed(ctx context.Context, b *bench) error {
	sandbox, err := b.open(ctx)
	if err != nil {
		return err
	}
	for range 3 {
		if err := sandbox.Close(ctx); err != nil {
			return fmt.Errorf("closing: %w", err)
		}
	}
	_, startErr := sandbox.Start(ctx, b.sh(":"), shared.Stdio{})
	_, planErr := sandbox.Plan(ctx, b.sh(":"))
	return errors.Join(wantKind("Start", startErr, shared.ErrClosed), wantKind("Plan", planErr, shared.ErrClosed))
}
