package cmdengine

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/events"
	"github.com/sbxhost/sbxhost/shared"
)

// A runningCommand is one that has started. Several goroutines may call its methods.
type runningCommand interface {
	// Wait returns when the command and all that it started are gone. It is called once.
	Wait() (shared.ExitStatus, error)
	// Signal sends to the command's process group, or returns os.ErrProcessDone.
	Signal(syscall.Signal) error
	// Kill ends everything, sooner or later, and returns at once. It returns os.ErrProcessDone
	// after the command's end.
	Kill() error
	// Usage and remarks, the reports after a command's end, are called after Wait.
	Usage() shared.Usage
	remarks() []shared.Event
	// finish waits for the launcher's end.
	finish()
}

type process struct {
	run    runningCommand
	events *events.Queue
	begun  time.Time

	done   chan struct{} // closed when result and err are final
	result shared.Result
	err    error
}

// supervise ends the command when its time is up or its sandbox is closed, and records its end. It
// calls gone last.
func (p *process) supervise(timeout, grace time.Duration, closed <-chan struct{}, gone func()) {
	defer gone()
	ended := make(chan struct{})
	timedOut := make(chan bool, 1)
	go func() { timedOut <- p.limit(timeout, grace, closed, ended) }()
	status, err := p.run.Wait()
	duration := time.Since(p.begun)
	close(ended)
	p.result = shared.Result{Status: status, TimedOut: <-timedOut, Duration: duration, Usage: p.run.Usage()}
	p.err = err
	for _, e := range p.run.remarks() {
		p.events.Send(e)
	}
	p.events.Close()
	close(p.done)
}

// limit reports whether the timeout ended the command.
func (p *process) limit(timeout, grace time.Duration, closed, ended <-chan struct{}) (timedOut bool) {
	var expired, graceOver <-chan time.Time
	if timeout > 0 {
		expired = time.After(timeout)
	}
	for {
		select {
		case <-ended:
			return timedOut
		case <-closed:
			closed = nil
			p.run.Kill()
		case <-graceOver:
			p.run.Kill()
		case <-expired:
			var err error
			if grace <= 0 {
				err = p.run.Kill()
			} else {
				// Before the signal, which may take long.
				graceOver = time.After(grace)
				if r, ok := p.run.(*insideRun); ok && r.launch.member() {
					r.conn.KillAllAtEnd() // otherwise the processes that it left running would go on
				}
				err = p.run.Signal(syscall.SIGTERM)
				// A stopped process acts on SIGTERM only after it continues.
				p.run.Signal(syscall.SIGCONT)
			}
			timedOut = !errors.Is(err, os.ErrProcessDone)
		}
	}
}

func (p *process) Wait(ctx context.Context) (shared.Result, error) {
	select {
	case <-p.done:
		return p.result, p.err
	default:
	}
	select {
	case <-p.done:
		return p.result, p.err
	case <-ctx.Done():
		return shared.Result{}, ctx.Err()
	}
}

// maxSignal is the greatest signal number of Linux; other systems have fewer.
const maxSignal = 64

func (p *process) Signal(ctx context.Context, sig syscall.Signal) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if sig < 1 || sig > maxSignal {
		return invalid("signal", "", "%d is not a signal number", int(sig))
	}
	select {
	case <-p.done:
		return os.ErrProcessDone
	default:
	}
	if sig == syscall.SIGKILL {
		return p.run.Kill()
	}
	return p.run.Signal(sig)
}

func (p *process) Events() <-chan shared.Event { return p.events.Events() }
