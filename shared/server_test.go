package shared_test

import (
	"context"
	"errors"
	. "github.com/sbxhost/sbxhost/shared"
	"io"
	"syscall"
	"testing"
	"time"

	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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

func TestPanicFailsOneCall(t *testing.T) {
	checkLeaks(t)
	w := connect(t, &testEngine{})
	s := open(t, w.engine)
	if _, err := w.engine.Open(t.Context(), Spec{Sandbox: "test:panic"}); !errors.Is(err, ErrBroken) || err.Error() != "the engine panicked in Open: as asked" {
		t.Errorf("got %v", err)
	}
	waitFor(t, startCommand(t, s, sh(":"), Stdio{}))
}

// What a host of another kind may send.
func TestBadRequests(t *testing.T) {
	checkLeaks(t)
	w := connect(t, &testEngine{})
	raw := pb.NewEngineClient(w.conn)
	opening, err := raw.Open(t.Context(), &pb.OpenRequest{Spec: &pb.Spec{Unconfined: true}})
	if err != nil {
		t.Fatal(err)
	}
	sandbox, err := opening.Recv()
	if err != nil {
		t.Fatal(err)
	}
	run := func(req *pb.RunRequest) error {
		stream, err := raw.Run(t.Context(), req)
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	id, command := sandbox.GetSandboxId(), &pb.Command{Script: []byte(":"), Dir: []byte("/")}
	for name, err := range map[string]error{
		"without a command":    run(&pb.RunRequest{SandboxId: id}),
		"with half a token":    run(&pb.RunRequest{SandboxId: id, Command: command, StdioPresent: 1, StdioToken: []byte("short")}),
		"without a token":      run(&pb.RunRequest{SandboxId: id, Command: command, StdioPresent: 1}),
		"with an unknown file": run(&pb.RunRequest{SandboxId: id, Command: command, StdioPresent: 1 << 3}),
	} {
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("Run %s: %v", name, err)
		}
	}
	for _, unknown := range []string{"", "77", "x", "-1"} {
		if _, err := raw.Signal(t.Context(), &pb.SignalRequest{ProcessId: unknown, Signal: 9}); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("Signal %q: %v", unknown, err)
		}
	}
	if _, err := raw.Close(t.Context(), &pb.CloseRequest{SandboxId: "77"}); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := raw.Close(t.Context(), &pb.CloseRequest{SandboxId: id}); err != nil {
		t.Errorf("Close: %v", err)
	}
	opening.Recv()
}

func TestConnectionLossKills(t *testing.T) {
	checkLeaks(t)
	w := connect(t, &testEngine{})
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
	eventually(t, "the engine has nothing left", w.server.Idle)
	if _, err := s.Start(t.Context(), sh(":"), Stdio{}); !errors.Is(err, ErrEngineLost) {
		t.Errorf("Start: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestCancelledCallsLeaveNothing(t *testing.T) {
	checkLeaks(t)
	w := connect(t, &testEngine{})
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
	eventually(t, "the engine has nothing left", w.server.Idle)
}

func TestShutdown(t *testing.T) {
	checkLeaks(t)
	w := connect(t, &testEngine{})
	s := open(t, w.engine)
	p := startCommand(t, s, sh("exec sleep 60"), Stdio{})
	if err := w.server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	// It is not the command's own end.
	if got, err := p.Wait(t.Context()); !errors.Is(err, ErrClosed) || err.Error() != "the engine was told to end, and its commands with it" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := w.engine.Open(t.Context(), Spec{Unconfined: true}); !errors.Is(err, ErrClosed) {
		t.Errorf("Open: %v", err)
	}
}
