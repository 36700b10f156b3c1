package shared

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// What follows are calls that no Engine, Sandbox or Process can make, by which a
// conformance kit tries what an engine makes of them.

// CallUnknown makes each call that names a sandbox or a process with an id that the
// engine has not given, and gives the error of each by the call's name in the
// protocol; nil is success. Where ctx ends first, that is the error.
func (l *Launched) CallUnknown(ctx context.Context, id string) map[string]error {
	return callUnknown(ctx, pb.NewEngineClient(l.conn), id)
}

func callUnknown(ctx context.Context, e pb.EngineClient, id string) map[string]error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // what an engine did open or start after all ends with its call
	command := &pb.Command{Args: [][]byte{[]byte("/bin/sh"), []byte("-c"), []byte(":")}, Dir: []byte("/")}
	errs := map[string]error{}
	tell := func(name string, err error) { errs[name] = errorFromStatus(err) }

	_, err := e.Plan(ctx, &pb.PlanRequest{SandboxId: id, Command: command})
	tell("Plan", err)
	_, err = e.Close(ctx, &pb.CloseRequest{SandboxId: id})
	tell("Close", err)
	run, err := e.Run(ctx, &pb.RunRequest{SandboxId: id, Command: command})
	if err == nil {
		_, err = run.Recv()
	}
	tell("Run", err)
	_, err = e.Signal(ctx, &pb.SignalRequest{ProcessId: id, Signal: 15})
	tell("Signal", err)
	_, err = e.Resize(ctx, &pb.ResizeRequest{ProcessId: id, Rows: 24, Cols: 80})
	tell("Resize", err)
	stdin, err := e.Stdin(ctx)
	if err == nil {
		if err = stdin.Send(&pb.StdinRequest{ProcessId: id, Data: []byte("x")}); err == nil || errors.Is(err, io.EOF) {
			_, err = stdin.CloseAndRecv()
		}
	}
	tell("Stdin", err)
	for fd, name := range map[int32]string{1: "Output", 2: "Output of stderr", 3: "Output of no stream"} {
		output, err := e.Output(ctx, &pb.OutputRequest{ProcessId: id, Fd: fd})
		if err == nil {
			_, err = output.Recv()
		}
		tell(name, err)
	}
	return errs
}

// CallAsStranger speaks to the engine as a process does that has found its socket and
// does not know the host's token: it makes a connection of its own and calls
// Info, Plan and Open on it, without a token and with a wrong one. An engine that
// is not to be reached, or refuses each as UNAUTHENTICATED, gives nil. The error says
// what it did in place of that.
func (l *Launched) CallAsStranger(ctx context.Context) error {
	attached := l.client.ReattachConfig()
	if attached == nil || attached.Addr == nil {
		return errors.New("the engine has no address")
	}
	address := attached.Addr
	reached, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, address.Network(), address.String())
	if err != nil {
		return ctx.Err() // nobody is let in
	}
	reached.Close()
	for name, options := range map[string][]grpc.DialOption{
		"without a token":    nil,
		"with a wrong token": {grpc.WithPerRPCCredentials(newCallToken())},
	} {
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(
			func(ctx context.Context, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, address.Network(), address.String())
			}))
		if err := strange(ctx, append(options, DialOptions()...)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func strange(ctx context.Context, options []grpc.DialOption) error {
	conn, err := grpc.NewClient("passthrough:///engine", options...)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e := pb.NewEngineClient(conn)
	_, infoErr := e.Info(ctx, &pb.InfoRequest{})
	_, planErr := e.Plan(ctx, &pb.PlanRequest{SandboxId: "1", Command: &pb.Command{Dir: []byte("/")}})
	open, openErr := e.Open(ctx, &pb.OpenRequest{Spec: &pb.Spec{Unconfined: true}})
	if openErr == nil {
		_, openErr = open.Recv()
	}
	for name, err := range map[string]error{"Info": infoErr, "Plan": planErr, "Open": openErr} {
		if code := status.Code(err); code != codes.Unauthenticated {
			return fmt.Errorf("%s gives %v in place of %v", name, code, codes.Unauthenticated)
		}
	}
	return nil
}
