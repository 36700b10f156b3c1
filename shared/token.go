package shared

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// tokenEnv tells an engine process the token that its host's calls carry. The
// engine's socket is a file for as long as the host needs to connect, and a
// command of the same user that sees the directory, by a bind of /tmp say,
// could ask the engine for a sandbox of its own choice. Commands see neither
// the environment nor the memory of processes outside.
const tokenEnv = "SBXHOST_TOKEN"

const tokenKey = "sbxhost-token"

// token is what a host's calls carry; the empty one is not asked for.
type callToken string

func newCallToken() callToken { return callToken(rand.Text()) }

// callTokenFromEnv takes the token out of this process's environment.
func callTokenFromEnv() callToken {
	defer os.Unsetenv(tokenEnv)
	return callToken(os.Getenv(tokenEnv))
}

// GetRequestMetadata and RequireTransportSecurity make it gRPC's
// credentials.PerRPCCredentials.
func (t callToken) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{tokenKey: string(t)}, nil
}

// RequireTransportSecurity is false: the socket does not leave the machine.
func (t callToken) RequireTransportSecurity() bool { return false }

// serverOptions make a server refuse calls that do not carry t.
func (t callToken) serverOptions() []grpc.ServerOption {
	if t == "" {
		return nil
	}
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := t.check(ctx); err != nil {
				return nil, err
			}
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if err := t.check(stream.Context()); err != nil {
				return err
			}
			return next(srv, stream)
		}),
	}
}

func (t callToken) check(ctx context.Context) error {
	given := metadata.ValueFromIncomingContext(ctx, tokenKey)
	if len(given) == 1 && subtle.ConstantTimeCompare([]byte(given[0]), []byte(t)) == 1 {
		return nil
	}
	return status.Error(codes.Unauthenticated, "this engine serves the host that started it")
}
