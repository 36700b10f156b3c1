//go:build unix

package shared

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/hashicorp/go-plugin"
	"github.com/sbxhost/sbxhost/internal/wire"
	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A listening server is an engine's side of go-plugin's protocol. Except for the engine's service,
// the services are go-plugin's. We make the socket and print the line with its address ourselves:
// plugin.Serve can also speak net/rpc, which finds methods by reflection, so the linker would keep
// every exported method of every type. That was a sixth of an engine's executable, in the memory of
// each engine.
type listening struct {
	*grpc.Server
	listener net.Listener
}

// listen serves s on a socket in dir, or in the directory of temporary files, for clients with the
// token.
func (s *server) listen(dir, token string) (*listening, error) {
	for name, asked := range map[string]string{
		"PLUGIN_CLIENT_CERT":      "TLS", // go-plugin's AutoMTLS
		plugin.EnvUnixSocketGroup: "a socket for a group",
	} {
		if os.Getenv(name) != "" {
			return nil, fmt.Errorf("%s: the host asks for %s; an engine uses a socket in a directory that only the host can use", name, asked)
		}
	}
	if dir == "" {
		dir = os.TempDir()
	}
	l := &listening{}
	services := &plugin.GRPCServer{
		Plugins: plugin.PluginSet{wire.PluginName: &servedPlugin{server: s}},
		Server: func(opts []grpc.ServerOption) *grpc.Server {
			l.Server = grpc.NewServer(slices.Concat(opts, serverOptions(token))...)
			return l.Server
		},
		Stdout: silent{},
		Stderr: silent{},
	}
	if err := services.Init(); err != nil {
		return nil, err
	}
	var err error
	// An existing file, or link, makes this fail. The name is random because others can write to
	// the directory of temporary files.
	l.listener, err = net.Listen("unix", filepath.Join(dir, "plugin"+strconv.FormatUint(uint64(rand.Uint32()), 10)))
	if err != nil {
		l.Stop()
		return nil, err
	}
	return l, nil
}

// announce prints the one line that the host waits for.
func (l *listening) announce(stdout io.Writer) error {
	_, err := fmt.Fprintf(stdout, "%d|%d|unix|%s|%s|\n",
		plugin.CoreProtocolVersion, wire.Handshake.ProtocolVersion, l.address(), plugin.ProtocolGRPC)
	return err
}

func (l *listening) address() string { return l.listener.Addr().String() }

// serve serves until the host stops it, and removes the socket.
func (l *listening) serve() error {
	err := l.Serve(l.listener)
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// servedPlugin is an engine as go-plugin sees it.
type servedPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	server *server
}

func (p *servedPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	pb.RegisterEngineServer(s, p.server)
	return nil
}

func (p *servedPlugin) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("this is the engine's side")
}

// silent is an empty output of the engine for go-plugin to forward. It never ends: at its end
// go-plugin would use a logger that only plugin.Serve can set.
type silent struct{}

func (silent) Read([]byte) (int, error) { select {} }

// serverOptions make a server refuse calls without the token, if there is one.
func serverOptions(token string) []grpc.ServerOption {
	options := []grpc.ServerOption{grpc.MaxRecvMsgSize(wire.MaxMessage), grpc.MaxSendMsgSize(wire.MaxMessage)}
	if token == "" {
		return options
	}
	check := func(ctx context.Context) error {
		given := metadata.ValueFromIncomingContext(ctx, wire.TokenKey)
		if len(given) == 1 && subtle.ConstantTimeCompare([]byte(given[0]), []byte(token)) == 1 {
			return nil
		}
		return status.Error(codes.Unauthenticated, "this engine serves only the host that started it")
	}
	return append(options,
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := check(ctx); err != nil {
				return nil, err
			}
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if err := check(stream.Context()); err != nil {
				return err
			}
			return next(srv, stream)
		}),
	)
}
