//go:build unix

package shared

import (
	"context"
	"crypto/subtle"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/hashicorp/go-plugin"
	"github.com/sbxhost/sbxhost/internal/wire"
	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// A listeningSocket is an engine's side of go-plugin's protocol. Except for the engine's service,
// the services are go-plugin's. We make the socket and print the line with its address ourselves:
// plugin.Serve can also speak net/rpc, which finds methods by reflection, so the linker would keep
// every exported method of every type. That was a sixth of an engine's executable, in the memory of
// each engine.
type listeningSocket struct {
	*grpc.Server
	listener net.Listener
}

// listen serves s on a socket in dir, or in the directory of temporary files, for clients with the
// token.
func (s *server) listen(dir, token string) (*listeningSocket, error) {
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
	l := &listeningSocket{}
	services := &plugin.GRPCServer{
		Server: func([]grpc.ServerOption) *grpc.Server { // it has options only for TLS
			l.Server = grpc.NewServer(serverOptions(token)...)
			pb.RegisterEngineServer(l.Server, s)
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
func (l *listeningSocket) announce(stdout io.Writer) error {
	_, err := fmt.Fprintf(stdout, "%d|%d|unix|%s|%s|\n",
		plugin.CoreProtocolVersion, wire.Handshake.ProtocolVersion, l.listener.Addr(), plugin.ProtocolGRPC)
	return err
}

// silent is an empty output of the engine for go-plugin to forward. It never ends: at its end
// go-plugin would use a logger that only plugin.Serve can set.
type silent struct{}

func (silent) Read([]byte) (int, error) { select {} }

// serverOptions make a server refuse calls without the token, if there is one.
func serverOptions(token string) []grpc.ServerOption {
	check := func(ctx context.Context, call *tap.Info) (context.Context, error) { // before a message is read
		given := call.Header.Get(wire.TokenKey)
		if token == "" || len(given) == 1 && subtle.ConstantTimeCompare([]byte(given[0]), []byte(token)) == 1 {
			return ctx, nil
		}
		return ctx, status.Error(codes.Unauthenticated, "this engine serves only the host that started it")
	}
	return []grpc.ServerOption{grpc.MaxRecvMsgSize(wire.MaxMessage), grpc.MaxSendMsgSize(wire.MaxMessage), grpc.InTapHandle(check)}
}
