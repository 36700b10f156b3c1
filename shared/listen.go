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

// A listening server is an engine's side of go-plugin's protocol. All services
// are go-plugin's own but for the engine's; the socket and the line that tells
// where it is are ours. plugin.Serve would make them, but can also speak net/rpc,
// whose lookup of methods by reflection makes the linker keep every exported
// method of every type: a sixth of an engine's executable, which is resident
// in each engine's process.
type listening struct {
	*grpc.Server
	listener net.Listener
}

// listen makes a socket in dir, or the directory of temporary files, on which s
// is served to those who know the token.
func (s *server) listen(dir, token string) (*listening, error) {
	for name, asked := range map[string]string{
		"PLUGIN_CLIENT_CERT":      "TLS", // go-plugin's AutoMTLS
		plugin.EnvUnixSocketGroup: "a socket for a group",
	} {
		if os.Getenv(name) != "" {
			return nil, fmt.Errorf("%s: the host asks for %s; an engine has a socket in a directory that is the host's alone", name, asked)
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
	// What is there already, a link too, makes this fail. Nobody's name is known
	// in a directory that others write to.
	l.listener, err = net.Listen("unix", filepath.Join(dir, "plugin"+strconv.FormatUint(uint64(rand.Uint32()), 10)))
	if err != nil {
		l.Stop()
		return nil, err
	}
	return l, nil
}

// announce tells the host, in the one line that it waits for.
func (l *listening) announce(stdout io.Writer) error {
	_, err := fmt.Fprintf(stdout, "%d|%d|unix|%s|%s|\n",
		plugin.CoreProtocolVersion, wire.Handshake.ProtocolVersion, l.address(), plugin.ProtocolGRPC)
	return err
}

func (l *listening) address() string { return l.listener.Addr().String() }

// serve lasts until the host has it stop, and removes the socket.
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

// silent is an output of the engine that go-plugin is to forward: there is none, and it
// never ends, since go-plugin has a logger for its end which only plugin.Serve can set.
type silent struct{}

func (silent) Read([]byte) (int, error) { select {} }

// serverOptions make a server refuse calls that do not carry the token, if there is one.
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
		return status.Error(codes.Unauthenticated, "this engine serves the host that started it")
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
