package enginetest_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/hashicorp/go-plugin"
	"github.com/sbxhost/sbxhost/plugins/noop"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginepb"
	"github.com/sbxhost/sbxhost/shared/enginetest"
	"google.golang.org/grpc"
)

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleEnv); role {
	case "knows any id":
		serveCarelessly(func(req any, reply any, err error) (any, error) {
			if _, ok := req.(*enginepb.SignalRequest); ok {
				return &enginepb.SignalReply{}, nil
			}
			return reply, err
		})
	case "fails to close":
		serveCarelessly(func(req any, reply any, err error) (any, error) {
			if c, ok := req.(*enginepb.CloseRequest); ok && c.GetSandboxId() == "" {
				return nil, errors.New("there is no such sandbox")
			}
			return reply, err
		})
	default:
		enginetest.Main(m, brokenInside(role))
	}
}

// serveCarelessly serves an engine whose answers change on their way.
func serveCarelessly(change func(req, reply any, err error) (any, error)) {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: shared.Handshake,
		Plugins:         plugin.PluginSet{shared.PluginName: shared.NewPlugin(noop.New())},
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(options, grpc.UnaryInterceptor(
				func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
					reply, err := next(ctx, req)
					return change(req, reply, err)
				}))...)
		},
	})
}
