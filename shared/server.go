//go:build unix

package shared

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	pb "github.com/sbxhost/sbxhost/shared/enginepb"
)

const (
	// cleanupTime bounds the end of a sandbox or command whose host no longer waits.
	cleanupTime = 30 * time.Second
	// eventGrace is how long after a command's end its engine may keep the channel of events open.
	eventGrace = time.Second
)

// A server puts an Engine on the wire. A panic in the engine fails only its own call.
type server struct {
	pb.UnimplementedEngineServer
	engine Engine
	inbox  *inbox
	log    hclog.Logger
	// enough ends StartEarly. It is called after the first Open.
	enough context.CancelFunc

	closing   atomic.Bool
	lastID    atomic.Uint64
	sandboxes sync.Map // *servedSandbox by id
	processes sync.Map // *servedProcess by id
}

type servedSandbox struct {
	Sandbox
	closed chan struct{} // closed when it is no longer registered
}

func newServer(engine Engine, log hclog.Logger) *server {
	return &server{engine: engine, inbox: newInbox(), log: log, enough: func() {}}
}

// finishCall is deferred by each call. It turns a panic of the engine into an error, and every error
// into one that gRPC can carry completely.
func (s *server) finishCall(method string, err *error) {
	if r := recover(); r != nil {
		*err = s.panicked(method, r)
	}
	*err = errorToStatus(*err)
}

func (s *server) panicked(method string, value any) error {
	s.log.Error("engine panicked", "method", method, "panic", value, "stack", string(debug.Stack()))
	return &Error{Kind: ErrBroken, Message: fmt.Sprintf("the engine panicked in %s: %v", method, value)}
}

// answer returns the engine's value on the wire.
func answer[Reply, V any](value V, err error) (*Reply, error) {
	if err != nil {
		return nil, err
	}
	return pb.To[Reply](&value), nil
}

func (s *server) Info(ctx context.Context, _ *pb.InfoRequest) (_ *pb.InfoReply, err error) {
	defer s.finishCall("Info", &err)
	defer func() { go pb.Warm() }() // the host sends more only after the reply
	return answer[pb.InfoReply](s.engine.Info(ctx))
}

func (s *server) Probe(ctx context.Context, _ *pb.ProbeRequest) (_ *pb.ProbeReply, err error) {
	defer s.finishCall("Probe", &err)
	return answer[pb.ProbeReply](s.engine.Probe(ctx))
}

func (s *server) Open(in *pb.OpenRequest, stream pb.Engine_OpenServer) (err error) {
	defer s.finishCall("Open", &err)
	ctx := stream.Context()
	spec, err := specFromPB(in.GetSpec())
	if err != nil {
		return err
	}
	opened, err := s.engine.Open(WithProgress(ctx, func(e Event) {
		// If Send fails, the call has ended, and so has ctx.
		_ = stream.Send(&pb.OpenReply{Progress: pb.To[pb.Event](&e)})
	}), spec)
	s.enough()
	if err != nil {
		return err
	}
	box := &servedSandbox{opened, make(chan struct{})}
	id, err := s.register(box)
	if err == nil {
		err = stream.Send(&pb.OpenReply{SandboxId: id})
	}
	if err == nil {
		select {
		case <-box.closed:
			return nil
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	// Its host cannot close it any more.
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTime)
	defer cancel()
	if closeErr := s.end(ctx, id, box); closeErr != nil {
		s.log.Warn("closing an abandoned sandbox", "error", closeErr)
	}
	return err
}

func (s *server) newID() string { return strconv.FormatUint(s.lastID.Add(1), 10) }

func (s *server) register(box *servedSandbox) (string, error) {
	id := s.newID()
	s.sandboxes.Store(id, box)
	if s.closing.Load() { // shutdown may not have seen it
		s.forget(id)
		return "", &Error{Kind: ErrClosed, Message: "the engine is shutting down"}
	}
	return id, nil
}

func (s *server) forget(id string) {
	if box, ok := s.sandboxes.LoadAndDelete(id); ok {
		close(box.(*servedSandbox).closed)
	}
}

// sandbox finds an open sandbox. An unknown id is that of a closed one.
func (s *server) sandbox(id string) (*servedSandbox, error) {
	if box, ok := s.sandboxes.Load(id); ok {
		return box.(*servedSandbox), nil
	}
	return nil, &Error{Kind: ErrClosed, Message: "the sandbox is closed"}
}

func (s *server) Close(ctx context.Context, in *pb.CloseRequest) (_ *pb.CloseReply, err error) {
	defer s.finishCall("Close", &err)
	box, err := s.sandbox(in.GetSandboxId())
	if err != nil {
		return &pb.CloseReply{}, nil
	}
	if err := box.Close(ctx); err != nil {
		return nil, err
	}
	reply := &pb.CloseReply{}
	if t, ok := box.Sandbox.(EventDrainer); ok {
		for _, e := range t.DrainEvents() {
			reply.Events = append(reply.Events, pb.To[pb.Event](&e))
		}
	}
	s.forget(in.GetSandboxId())
	return reply, nil
}

func (s *server) Plan(ctx context.Context, in *pb.PlanRequest) (_ *pb.PlanReply, err error) {
	defer s.finishCall("Plan", &err)
	box, err := s.sandbox(in.GetSandboxId())
	if err != nil {
		return nil, err
	}
	cmd, err := commandFromPB(in.GetCommand())
	if err != nil {
		return nil, err
	}
	return answer[pb.PlanReply](box.Plan(ctx, cmd))
}

func (s *server) Signal(ctx context.Context, in *pb.SignalRequest) (_ *pb.SignalReply, err error) {
	defer s.finishCall("Signal", &err)
	p, runs := s.processes.Load(in.GetProcessId()) // during its call of Run
	if !runs {
		return nil, os.ErrProcessDone
	}
	return &pb.SignalReply{}, p.(*servedProcess).Signal(ctx, syscall.Signal(in.GetSignal()))
}

// shutdown kills all commands, closes all sandboxes before ctx ends, and refuses new ones.
func (s *server) shutdown(ctx context.Context) error {
	s.closing.Store(true)
	var ends sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for id, box := range s.sandboxes.Range {
		ends.Go(func() {
			err := s.end(ctx, id.(string), box.(*servedSandbox))
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	for _, p := range s.processes.Range {
		ends.Go(func() { <-p.(*servedProcess).ended })
	}
	done := make(chan struct{})
	go func() {
		ends.Wait()
		close(done)
	}()
	select {
	case <-done:
		return errors.Join(errs...)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end closes a sandbox and forgets it.
func (s *server) end(ctx context.Context, id string, box *servedSandbox) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = s.panicked("Close", r)
		}
	}()
	err = box.Close(ctx)
	s.forget(id)
	return err
}
