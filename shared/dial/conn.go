//go:build unix

package dial

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sbxhost/sbxhost/shared/wire"
)

const (
	// streamWindow bounds what one stream has underway. A fixed window spares
	// gRPC's probing for a better one. With windows and buffers four times as
	// large a stream is a fifth faster, and the two sides together are five MiB larger.
	streamWindow = 256 << 10
	connWindow   = 16 << 20
	// ioBuffer is the size of a connection's read and write buffers.
	ioBuffer = 64 << 10
)

// dialOptions tune a host's connection for streamed stdio.
func dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithReadBufferSize(ioBuffer),
		grpc.WithWriteBufferSize(ioBuffer),
		grpc.WithDisableRetry(),         // would keep a copy of what is sent
		grpc.WithDisableServiceConfig(), // nobody serves one
		grpc.WithIdleTimeout(0),         // open sandboxes are tied to the connection
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
