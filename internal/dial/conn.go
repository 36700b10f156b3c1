//go:build unix

package dial

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sbxhost/sbxhost/internal/wire"
)

// dialOptions are those of a host's connection.
func dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithStaticStreamWindowSize(64 << 10), // gRPC's own, without its probing for a better one
		grpc.WithDisableRetry(),                   // would keep a copy of what is sent
		grpc.WithDisableServiceConfig(),           // nobody serves one
		grpc.WithIdleTimeout(0),                   // open sandboxes are tied to the connection
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(wire.MaxMessage),
			grpc.MaxCallSendMsgSize(wire.MaxMessage),
		),
	}
}

// connectTo connects to an engine's socket. Nothing is sent before the first call.
func connectTo(socket string, token callToken) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix:"+socket, append(dialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(token))...)
}

// callToken is what a host's calls carry.
type callToken string

// GetRequestMetadata and RequireTransportSecurity make it gRPC's
// credentials.PerRPCCredentials.
func (t callToken) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{wire.TokenKey: string(t)}, nil
}

// RequireTransportSecurity is false: the socket does not leave the machine.
func (t callToken) RequireTransportSecurity() bool { return false }
