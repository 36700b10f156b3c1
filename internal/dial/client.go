//go:build unix

package dial

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/sbxhost/sbxhost/internal/events"
	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/shared"
	pb "github.com/sbxhost/sbxhost/shared/enginepb"
)

// New returns the engine at the other end of conn. The channel to the same engine process passes
// the files of a command's stdio.
//
// No Wait lasts forever: thirty seconds after the engine must have killed a command whose end it
// does not report, the call fails with ErrBroken. An impossible status is ErrBroken too.
//
// The caller owns the connection and the channel.
func New(conn grpc.ClientConnInterface, ch *Channel) shared.Engine {
	return &client{engine: pb.NewEngineClient(conn), channel: ch, patience: endPatience}
}

// endPatience is how long an engine may take to report the end of a command that it must kill. An
// engine gives a launcher that clears up twenty seconds of that.
const endPatience = 30 * time.Second

// client is an Engine behind gRPC.
type client struct {
	engine  pb.EngineClient
	channel *Channel

	patience time.Duration
}

func (c *client) Info(ctx context.Context) (shared.Info, error) {
	go pb.Warm()
	reply, err := c.engine.Info(ctx, &pb.InfoRequest{})
	if err != nil {
		return shared.Info{}, errorFromStatus(err)
	}
	return pb.From[shared.Info](reply)
}

func (c *client) Probe(ctx context.Context) (shared.Probe, error) {
	reply, err := c.engine.Probe(ctx, &pb.ProbeRequest{})
	if err != nil {
		return shared.Probe{}, errorFromStatus(err)
	}
	return pb.From[shared.Probe](reply)
}

// firstReply makes a call whose stream outlives ctx, and waits under ctx for the first message that
// passing, which may be nil, does not take. On success only cancel ends the stream.
func firstReply[M any](ctx context.Context, passing func(*M) bool, call func(context.Context) (grpc.ServerStreamingClient[M], error)) (
	_ grpc.ServerStreamingClient[M], _ *M, cancel context.CancelFunc, _ error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, nil, err
	}
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	stream, err := call(streamCtx)
	var first *M
	if err == nil {
		first, err = stream.Recv()
		for err == nil && passing != nil && passing(first) {
			first, err = stream.Recv()
		}
	}
	if !stop() && err == nil {
		err = ctx.Err() // it has cancelled the result
	}
	if err == nil {
		return stream, first, cancel, nil
	}
	cancel()
	err = errorFromStatus(err)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = ctx.Err()
	}
	return nil, nil, nil, err
}

func (c *client) Open(ctx context.Context, spec shared.Spec) (shared.Sandbox, error) {
	passing := func(reply *pb.OpenReply) bool {
		if reply.GetProgress() == nil {
			return false
		}
		shared.Progress(ctx, eventFromPB(reply.GetProgress()))
		return true
	}
	_, reply, cancel, err := firstReply(ctx, passing, func(ctx context.Context) (grpc.ServerStreamingClient[pb.OpenReply], error) {
		return c.engine.Open(ctx, &pb.OpenRequest{Spec: pb.To[pb.Spec](&spec)})
	})
	if err != nil {
		return nil, err
	}
	return &clientSandbox{client: c, id: reply.GetSandboxId(), release: cancel}, nil
}

// clientSandbox is a Sandbox behind gRPC.
type clientSandbox struct {
	client  *client
	id      string
	release context.CancelFunc // ends the call of Open
	closed  atomic.Bool        // Close was called
	gone    atomic.Bool        // Close has succeeded

	mu         sync.Mutex
	lateEvents []shared.Event
}

// DrainEvents implements [shared.EventDrainer].
func (s *clientSandbox) DrainEvents() []shared.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.lateEvents
	s.lateEvents = nil
	return list
}

func (s *clientSandbox) Plan(ctx context.Context, cmd shared.Command) (shared.Plan, error) {
	if s.closed.Load() {
		return shared.Plan{}, errSandboxClosed()
	}
	reply, err := s.client.engine.Plan(ctx, &pb.PlanRequest{SandboxId: s.id, Command: pb.To[pb.Command](&cmd)})
	if err != nil {
		return shared.Plan{}, errorFromStatus(err)
	}
	return pb.From[shared.Plan](reply)
}

func (s *clientSandbox) Close(ctx context.Context) error {
	s.closed.Store(true)
	if s.gone.Load() {
		return nil
	}
	reply, err := s.client.engine.Close(ctx, &pb.CloseRequest{SandboxId: s.id})
	s.mu.Lock()
	for _, e := range reply.GetEvents() {
		s.lateEvents = append(s.lateEvents, eventFromPB(e))
	}
	s.mu.Unlock()
	err = errorFromStatus(err)
	if err != nil && !errors.Is(err, shared.ErrEngineLost) { // gone with all it had
		return err
	}
	s.gone.Store(true)
	s.release()
	return nil
}

func errSandboxClosed() error {
	return &shared.Error{Kind: shared.ErrClosed, Message: "the sandbox is closed"}
}

// NotAskedError is the error of a command whose engine never received the request: nothing has run.
type NotAskedError struct{ Err error }

func (e *NotAskedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *NotAskedError) Unwrap() error { return e.Err }

func (s *clientSandbox) Start(ctx context.Context, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
	if s.closed.Load() {
		return nil, errSandboxClosed()
	}
	if err := stdio.Validate(); err != nil {
		return nil, err
	}
	req := &pb.RunRequest{SandboxId: s.id, Command: pb.To[pb.Command](&cmd)}
	p := &clientProcess{engine: s.client.engine, patience: s.client.patience, done: make(chan struct{}), events: events.NewQueue(maxEvents)}
	if err := s.client.sendStdio(ctx, req, stdio); err != nil {
		return nil, &NotAskedError{err}
	}
	stream, first, cancel, err := firstReply(ctx, nil, func(ctx context.Context) (grpc.ServerStreamingClient[pb.RunReply], error) {
		return s.client.engine.Run(ctx, req, grpc.MaxCallRecvMsgSize(wire.MaxEvent))
	})
	if err != nil {
		if len(req.StdioToken) > 0 { // the engine may not have taken them
			s.client.channel.abandon(wire.FilesToken(req.StdioToken))
		}
		return nil, err
	}
	if first.GetStarted() == nil {
		cancel()
		return nil, &shared.Error{Kind: shared.ErrBroken, Message: "the engine did not report that the command started"}
	}
	p.id, p.cancel = first.GetStarted().GetProcessId(), cancel
	go p.follow(stream)
	return p, nil
}

// sendStdio sends the files before the request that names them.
func (c *client) sendStdio(ctx context.Context, req *pb.RunRequest, stdio shared.Stdio) error {
	var files []*os.File
	for i, f := range []*os.File{stdio.Stdin, stdio.Stdout, stdio.Stderr} {
		if f != nil {
			req.StdioPresent |= 1 << i
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return nil
	}
	t, err := c.channel.send(ctx, files)
	req.StdioToken = t[:]
	return err
}

// maxEvents bounds the events that wait for a slow or absent reader.
const maxEvents = 256
