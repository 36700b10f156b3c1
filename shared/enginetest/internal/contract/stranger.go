package contract

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/sbxhost/sbxhost/internal/wire"
	pb "github.com/sbxhost/sbxhost/shared/enginepb"
)

// No Engine, Sandbox or Process can make the following calls.

// callAll makes each call of the protocol, with an id that the engine has not
// returned. It returns the error of each call by its name in the protocol; nil is success.
func callAll(ctx context.Context, conn grpc.ClientConnInterface, id string) map[string]error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a sandbox or command that an engine opens or starts nevertheless ends with its call
	e := pb.NewEngineClient(conn)
	command := &pb.Command{Args: [][]byte{[]byte("/bin/sh"), []byte("-c"), []byte(":")}, Dir: []byte("/")}
	errs := map[string]error{}

	_, errs["Info"] = e.Info(ctx, &pb.InfoRequest{})
	open, err := e.Open(ctx, &pb.OpenRequest{Spec: &pb.Spec{Unconfined: true}})
	if err == nil {
		_, err = open.Recv()
	}
	errs["Open"] = err
	_, errs["Plan"] = e.Plan(ctx, &pb.PlanRequest{SandboxId: id, Command: command})
	_, errs["Close"] = e.Close(ctx, &pb.CloseRequest{SandboxId: id})
	run, err := e.Run(ctx, &pb.RunRequest{SandboxId: id, Command: command})
	if err == nil {
		_, err = run.Recv()
	}
	errs["Run"] = err
	_, errs["Signal"] = e.Signal(ctx, &pb.SignalRequest{ProcessId: id, Signal: 15})
	return errs
}

// kindOf returns the kind of a call's error.
func kindOf(err error) pb.Error_Kind {
	for _, detail := range grpcstatus.Convert(err).Details() {
		if e, ok := detail.(*pb.Error); ok {
			return e.GetKind()
		}
	}
	return pb.Error_KIND_UNSPECIFIED
}

// callAsStranger speaks to an engine like a process that has found its socket but does not know the
// host's token: it makes a connection of its own and all calls on it, without a
// token and with a wrong one. If the engine cannot be reached, or refuses each as UNAUTHENTICATED,
// it returns nil. Otherwise the error says what the engine did.
func callAsStranger(ctx context.Context, address net.Addr) error {
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: time.Second}).DialContext(ctx, address.Network(), address.String())
	}
	reached, err := dial(ctx, "")
	if err != nil {
		return ctx.Err() // nobody is let in
	}
	reached.Close()
	conn, err := grpc.NewClient("passthrough:///engine", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial))
	if err != nil {
		return err
	}
	defer conn.Close()
	for name, ctx := range map[string]context.Context{
		"without a token":    ctx,
		"with a wrong token": metadata.AppendToOutgoingContext(ctx, wire.TokenKey, "guessed"),
	} {
		for call, err := range callAll(ctx, conn, "1") {
			if code := grpcstatus.Code(err); code != codes.Unauthenticated {
				return fmt.Errorf("%s: %s gives %v in place of %v", name, call, code, codes.Unauthenticated)
			}
		}
	}
	return nil
}
