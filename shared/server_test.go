package shared

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// eventually waits for what another goroutine is about to bring about.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		<-tick.C
	}
}

func (s *server) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sandboxes) == 0 && len(s.processes) == 0
}

func TestPanicFailsOneCall(t *testing.T) {
	checkLeaks(t)
	w := connect(t, &testEngine{}, true)
	s := open(t, w.engine)
	if _, err := w.engine.Open(t.Context(), Spec{Sandbox: "test:panic"}); !errors.Is(err, ErrBroken) || err.Error() != "the engine panicked in Open: as asked" {
		t.Errorf("got %v", err)
	}
	waitFor(t, startCommand(t, s, sh(":"), Stdio{}))
}

func TestUnknownIDs(t *testing.T) {
	checkLeaks(t)
	w := connect(t, &testEngine{}, true)
	raw := pb.NewEngineClient(w.conn)
	_, err := raw.Plan(t.Context(), &pb.PlanRequest{SandboxId: "77", Command: &pb.Command{}})
	if err := errorFromStatus(err); !errors.Is(err, ErrClosed) {
		t.Errorf("Plan: %v", err)
	}
	if _, err := raw.Close(t.Context(), &pb.CloseRequest{SandboxId: "77"}); err != nil {
		t.Errorf("Close: %v", err)
	}
	for _, id := range []string{"", "77", "x", "-1"} {
		_, err := raw.Signal(t.Context(), &pb.SignalRequest{ProcessId: id, Signal: 9})
		if err := errorFromStatus(err); !errors.Is(err, ErrClosed) {
			t.Errorf("Signal %q: %v", id, err)
		}
	}
	run := func(req *pb.RunRequest) error {
		stream, err := raw.Run(t.Context(), req)
		if err == nil {
			_, err = stream.Recv()
		}
		return errorFromStatus(err)
	}
	if err := run(&pb.RunRequest{SandboxId: "77", Command: &pb.Command{}}); !errors.Is(err, ErrClosed) {
		t.Errorf("Run: %v", err)
	}
	s := open(t, w.engine).(*clientSandbox)
	if err := run(&pb.RunRequest{SandboxId: s.id}); !errors.Is(err, ErrInvalidSpec) {
		t.Errorf("Run without a command: %v", err)
	}
	if err := run(&pb.RunRequest{SandboxId: s.id, Command: &pb.Command{}, StdioToken: []byte("short")}); !errors.Is(err, ErrInvalidSpec) {
		t.Errorf("Run with half a token: %v", err)
	}
	p := startCommand(t, s, sh("exec sleep 60"), Stdio{}).(*clientProcess)
	for _, fd := range []int32{-1, 0, 1, 2, 3} {
		stream, err := raw.Output(t.Context(), &pb.OutputRequest{ProcessId: p.id, Fd: fd})
		if err == nil {
			_, err = stream.Recv()
		}
		if err := errorFromStatus(err); !errors.Is(err, ErrInvalidSpec) {
			t.Errorf("Output %d: %v", fd, err)
		}
	}
	if err := p.Signal(t.Context(), syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	waitFor(t, p)
	eventually(t, "the process is forgotten", func() bool {
		_, err := raw.Signal(t.Context(), &pb.SignalRequest{ProcessId: p.id, Signal: 9})
		return errors.Is(errorFromStatus(err), os.ErrProcessDone)
	})
}

func TestConnectionLossKills(t *testing.T) {
	for _, withChannel := range []bool{true, false} {
		checkLeaks(t)
		w := connect(t, &testEngine{}, withChannel)
		s, err := w.engine.Open(t.Context(), Spec{Unconfined: true})
		if err != nil {
			t.Fatal(err)
		}
		r, out := pipe(t)
		p := startCommand(t, s, sh("echo; exec sleep 60"), Stdio{Stdout: out})
		out.Close()
		r.Read(make([]byte, 1))
		w.conn.Close()
		if _, err := p.Wait(t.Context()); !errors.Is(err, ErrEngineLost) {
			t.Errorf("Wait: %v", err)
		}
		if _, err := io.ReadAll(r); err != nil { // the command is gone
			t.Error(err)
		}
		eventually(t, "the engine has nothing left", w.server.idle)
		if _, err := s.Start(t.Context(), sh(":"), Stdio{}); !errors.Is(err, ErrEngineLost) {
			t.Errorf("Start: %v", err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

func TestCancelledCallsLeaveNothing(t *testing.T) {
	checkLeaks(t)
	w := connect(t, &testEngine{}, true)
	for i := range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(i)*20*time.Microsecond, cancel)
		s, err := w.engine.Open(ctx, Spec{Unconfined: true})
		if err == nil {
			if p, startErr := s.Start(ctx, sh("exec sleep 60"), Stdio{}); startErr == nil {
				p.Signal(t.Context(), syscall.SIGKILL)
				waitFor(t, p)
			} else if !errors.Is(startErr, context.Canceled) {
				t.Errorf("Start: %v", startErr)
			}
			err = s.Close(t.Context())
		} else if errors.Is(err, context.Canceled) {
			err = nil
		}
		if err != nil {
			t.Error(err)
		}
		cancel()
	}
	eventually(t, "the engine has nothing left", w.server.idle)
}

func TestShutdown(t *testing.T) {
	checkLeaks(t)
	w := connect(t, &testEngine{}, true)
	s := open(t, w.engine)
	p := startCommand(t, s, sh("exec sleep 60"), Stdio{})
	if err := w.server.shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if got := waitFor(t, p); got.Status.Signal != syscall.SIGKILL {
		t.Error(got)
	}
	if _, err := w.engine.Open(t.Context(), Spec{Unconfined: true}); !errors.Is(err, ErrClosed) {
		t.Errorf("Open: %v", err)
	}
}

func TestStreamedTerminal(t *testing.T) {
	checkLeaks(t)
	cmd := sh(":")
	cmd.TTY = true
	_, w := pipe(t)
	_, err := open(t, connect(t, &testEngine{}, false).engine).Start(t.Context(), cmd, Stdio{Stdout: w})
	if whole, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, ErrUnsupported) || whole.Attribute != "tty" {
		t.Errorf("got %v", err)
	}
	with := &testEngine{features: Features{FeatureTTYEngine}}
	waitFor(t, startCommand(t, open(t, connect(t, with, false).engine), cmd, Stdio{Stdout: w}))
	waitFor(t, startCommand(t, open(t, connect(t, &testEngine{}, true).engine), cmd, Stdio{Stdout: w}))
	waitFor(t, startCommand(t, open(t, connect(t, &testEngine{}, true).engine), cmd, Stdio{}))
}

// A peer that knows the protocol and nothing of this package's tuning.
func TestPlainPeers(t *testing.T) {
	g := grpc.NewServer()
	if err := NewPlugin(&testEngine{}).GRPCServer(nil, g); err != nil {
		t.Fatal(err)
	}
	connect := served(t, g)
	if err := ClientPlugin(nil).GRPCServer(nil, g); err == nil {
		t.Error("the host's side can be served")
	}
	dial := func(opts ...grpc.DialOption) Engine {
		// A client of another kind ignores the options of a call.
		return NewClient(struct{ grpc.ClientConnInterface }{plainConn{connect(opts...)}}, nil)
	}
	testLargeStreams(t, dial())
	testHalfClose(t, dial(DialOptions()...))
}

// served has a server listen on a socket, and gives what connects to it.
func served(t *testing.T, g *grpc.Server) (connect func(...grpc.DialOption) *grpc.ClientConn) {
	t.Helper()
	dir, err := os.MkdirTemp("", "wire") // whose path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	go g.Serve(listener)
	t.Cleanup(g.Stop)
	return func(opts ...grpc.DialOption) *grpc.ClientConn {
		conn, err := grpc.NewClient("unix:"+path, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
}

type plainConn struct{ *grpc.ClientConn }

func (c plainConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.ClientConn.NewStream(ctx, desc, method)
}
