//go:build unix

package dial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/sbxhost/sbxhost/internal/events"
	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/shared"
	pb "github.com/sbxhost/sbxhost/shared/enginepb"
)

// clientProcess is a Process behind gRPC.
type clientProcess struct {
	engine pb.EngineClient
	id     string
	events *events.Queue

	patience time.Duration
	cancel   context.CancelFunc // gives up the call of Run
	killing  sync.Once          // for the first SIGKILL
	overdue  atomic.Bool        // the engine did not report the end after SIGKILL in time

	done   chan struct{}
	result shared.Result // valid after done
	err    error         // valid after done
}

// follow reads the call of Run to its end.
func (p *clientProcess) follow(stream grpc.ServerStreamingClient[pb.RunReply]) {
	defer p.cancel()
	ended := false
	for !ended {
		reply, err := stream.Recv()
		switch kind := reply.GetKind().(type) {
		case *pb.RunReply_Event:
			e := shared.Event{Kind: shared.EventDropped, Details: map[string]string{"count": "1"}}
			if kind.Event.Size() <= wire.MaxMessage {
				e = eventFromPB(kind.Event)
			}
			p.events.Send(e)
		case *pb.RunReply_Exited:
			p.result, _ = pb.From[shared.Result](kind.Exited)
			p.result.Usage.CPU, ended = max(0, p.result.Usage.CPU), true
			if p.err = checkStatus(p.result.Status); p.err != nil {
				p.result = shared.Result{}
			}
		case *pb.RunReply_Broken:
			p.err, ended = brokenFromPB(kind.Broken), true
		}
		if err != nil {
			p.err, ended = errorFromStatus(err), true
			if p.overdue.Load() {
				p.err = &shared.Error{Kind: shared.ErrBroken, Message: fmt.Sprintf("the engine did not report how the command ended within %v after it was asked to kill it", p.patience)}
			}
		}
	}
	p.events.Close()
	close(p.done)
}

func (p *clientProcess) Wait(ctx context.Context) (shared.Result, error) {
	if p.hasEnded() {
		return p.result, p.err
	}
	select {
	case <-p.done:
		return p.result, p.err
	case <-ctx.Done():
		return shared.Result{}, ctx.Err()
	}
}

func (p *clientProcess) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *clientProcess) Signal(ctx context.Context, sig syscall.Signal) error {
	if p.hasEnded() {
		return os.ErrProcessDone
	}
	if sig == syscall.SIGKILL {
		p.killing.Do(func() { go p.await() })
	}
	_, err := p.engine.Signal(ctx, &pb.SignalRequest{ProcessId: p.id, Signal: int32(sig)})
	return errorFromStatus(err)
}

// await gives up a command whose end is overdue.
func (p *clientProcess) await() {
	select {
	case <-p.done:
	case <-time.After(p.patience):
		p.overdue.Store(true)
		p.cancel()
	}
}

func (p *clientProcess) Events() <-chan shared.Event { return p.events.Events() }

// brokenFromPB is ErrBroken, whatever kind the engine sends: the command has started, so a kind
// such as not found would be wrong.
func brokenFromPB(detail *pb.Error) error {
	err := errorFromPB(detail)
	if errors.Is(err, shared.ErrBroken) {
		return err
	}
	return &shared.Error{Kind: shared.ErrBroken, Message: err.Error()}
}

// checkStatus refuses an impossible status, such as a wait status in place of a code: its low byte,
// as an exit status, would be 0.
func checkStatus(s shared.ExitStatus) error {
	if s.Signal < 0 || s.Signal > 127 || s.Signal == 0 && (s.Code < 0 || s.Code > 255) {
		return &shared.Error{Kind: shared.ErrBroken, Message: fmt.Sprintf("the engine reported code %d and signal %d, with which no process can end", s.Code, int(s.Signal))}
	}
	return nil
}

// eventFromPB returns an event. Its message has no numbers that could be unknown.
func eventFromPB(in *pb.Event) shared.Event {
	e, _ := pb.From[shared.Event](in)
	return e
}
