package dial

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/shared"
	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// liar is an engine in another language, which says what it likes.
type liar struct {
	pb.UnimplementedEngineServer
	run   []*pb.RunReply
	hangs bool // after that
}

func (*liar) Info(_ context.Context, _ *pb.InfoRequest) (*pb.InfoReply, error) {
	return &pb.InfoReply{}, nil
}

func (*liar) Open(_ *pb.OpenRequest, stream pb.Engine_OpenServer) error {
	stream.Send(&pb.OpenReply{SandboxId: "s"})
	<-stream.Context().Done()
	return nil
}

func (l *liar) Run(_ *pb.RunRequest, stream pb.Engine_RunServer) error {
	for _, reply := range l.run {
		stream.Send(reply)
	}
	if l.hangs {
		<-stream.Context().Done()
	}
	return nil
}

func (*liar) Signal(context.Context, *pb.SignalRequest) (*pb.SignalReply, error) {
	return &pb.SignalReply{}, nil
}

func (*liar) Close(context.Context, *pb.CloseRequest) (*pb.CloseReply, error) {
	return &pb.CloseReply{}, nil
}

// open opens a sandbox of such an engine, which is given a short time.
func (l *liar) open(t *testing.T, channel *Channel) shared.Sandbox {
	t.Helper()
	server := grpc.NewServer()
	pb.RegisterEngineServer(server, l)
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("unix:"+path, append(dialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	engine := New(conn, channel)
	engine.(*client).patience = 300 * time.Millisecond
	sandbox, err := engine.Open(t.Context(), shared.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	return sandbox
}

func (l *liar) started(t *testing.T) shared.Process {
	t.Helper()
	p, err := l.open(t, nil).Start(t.Context(), shared.Command{Script: ":", Dir: "/"}, shared.Stdio{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// An engine can refuse a command before it takes the command's files. The host takes them back, or
// the reader of a pipe would wait for the engine.
func TestFilesOfARefusedCommand(t *testing.T) {
	t.Parallel()
	host, engineEnd, err := NewChannel()
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	defer engineEnd.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if _, err := (&liar{}).open(t, host).Start(t.Context(), shared.Command{Script: ":", Dir: "/"}, shared.Stdio{Stdin: null}); err == nil {
		t.Error("the command has started")
	}
	host.Close()
	var sent, again wire.FilesToken
	_, fds, err := frame.Receive(int(engineEnd.Fd()), sent[:])
	frame.CloseAll(fds)
	if err != nil || len(fds) != 1 {
		t.Errorf("%v, %v", fds, err)
	}
	if n, fds, err := frame.Receive(int(engineEnd.Fd()), again[:]); err != nil || n != len(again) || len(fds) != 0 || again != sent {
		t.Errorf("%d bytes, %v, %v", n, fds, err)
	}
}

func saysStarted() *pb.RunReply {
	return &pb.RunReply{Kind: &pb.RunReply_Started{Started: &pb.Started{ProcessId: "p"}}}
}

func saysExited(code, signal int32) *pb.RunReply {
	return &pb.RunReply{Kind: &pb.RunReply_Exited{Exited: &pb.Result{Code: code, Signal: signal}}}
}

// What no process can end with is no end: 256, the wait status of an exit with 1,
// would become the status 0 of whoever exits with it.
func TestImpossibleEnds(t *testing.T) {
	t.Parallel()
	for _, reply := range []*pb.RunReply{
		saysExited(256, 0), saysExited(-1, 0), saysExited(1<<30, 0), saysExited(0, -1), saysExited(0, 128),
		{Kind: &pb.RunReply_Broken{Broken: &pb.Error{Kind: pb.Error_KIND_NOT_FOUND, Message: "started, and not there"}}},
		{Kind: &pb.RunReply_Broken{Broken: &pb.Error{Text: "of no kind"}}},
	} {
		p := (&liar{run: []*pb.RunReply{saysStarted(), reply}}).started(t)
		if got, err := p.Wait(t.Context()); !errors.Is(err, shared.ErrBroken) || errors.Is(err, shared.ErrNotFound) || got != (shared.Result{}) {
			t.Errorf("%v: %+v, %v", reply, got, err)
		}
	}
	for _, reply := range []*pb.RunReply{saysExited(255, 0), saysExited(0, 64), saysExited(999, 9)} {
		p := (&liar{run: []*pb.RunReply{saysStarted(), reply}}).started(t)
		if got, err := p.Wait(t.Context()); err != nil || got.Status.Shell() > 255 {
			t.Errorf("%v: %+v, %v", reply, got, err)
		}
	}
}

// An event that is longer than a message costs that event.
func TestLongEvent(t *testing.T) {
	t.Parallel()
	event := func(n int) *pb.RunReply {
		return &pb.RunReply{Kind: &pb.RunReply_Event{Event: &pb.Event{Message: strings.Repeat("x", n)}}}
	}
	p := (&liar{run: []*pb.RunReply{saysStarted(), event(1), event(70 << 20), event(2), saysExited(3, 0)}}).started(t)
	if got, err := p.Wait(t.Context()); err != nil || got.Status.Code != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	var told []int
	for e := range p.Events() {
		told = append(told, len(e.Message))
		if e.Kind == shared.EventDropped && e.Details["count"] != "1" {
			t.Errorf("%+v", e)
		}
	}
	if len(told) != 3 || told[0] != 1 || told[1] != 2 {
		t.Errorf("events of %d bytes", told)
	}
}

// An engine that takes SIGKILL and never tells the end makes nobody wait for it.
func TestUntoldEnd(t *testing.T) {
	t.Parallel()
	p := (&liar{run: []*pb.RunReply{saysStarted()}, hangs: true}).started(t)
	if err := p.Signal(t.Context(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := p.Wait(t.Context())
		waited <- err
	}()
	select {
	case err := <-waited:
		t.Fatalf("given up before it was to be killed: %v", err)
	case <-time.After(600 * time.Millisecond):
	}
	for range 2 {
		if err := p.Signal(t.Context(), syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	if err := <-waited; !errors.Is(err, shared.ErrBroken) || !strings.Contains(err.Error(), "kill") {
		t.Error(err)
	}
	for range p.Events() {
	}
}
