//go:build unix

package dial

import (
	"context"

	"google.golang.org/grpc"

	"github.com/sbxhost/sbxhost/internal/wire"
)

// dialOptions are those of a host's connection.
func dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithStaticStreamWindowSize(64 << 10), // gRPC's default, without its search for a better one
		grpc.WithDisableRetry(),                   // a retry would keep a copy of what is sent
		grpc.WithDisableServiceConfig(),           // nobody serves one
		grpc.WithIdleTimeout(0),                   // open sandboxes need the connection
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(wire.MaxMessage),
			grpc.MaxCallSendMsgSize(wire.MaxMessage),
		),
	}
}

// callToken is the credential of a host's calls.
type callToken string

// GetRequestMetadata and RequireTransportSecurity make it gRPC's credentials.PerRPCCredentials.
func (t callToken) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{wire.TokenKey: string(t)}, nil
}

// RequireTransportSecurity is false: the socket does not leave the machine.
func (t callToken) RequireTransportSecurity() bool { return false }
