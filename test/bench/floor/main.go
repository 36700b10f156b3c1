//go:build linux

// Floor is the least that a host and its plugin can be: what go-plugin and gRPC alone cost.
// With the word exit it links them and ends; without a word it is a host that starts itself as
// a plugin, by which it runs true, without a sandbox. With the word server and the path of a socket,
// it runs true in a sandbox for each client there.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

var handshake = plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "SBXHOST_FLOOR", MagicCookieValue: "1"}

// service has one call, which runs true.
type service struct{ plugin.NetRPCUnsupportedPlugin }

const run = "/floor.Floor/Run"

func (service) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	handle := func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		if err := decode(new(emptypb.Empty)); err != nil {
			return nil, err
		}
		return new(emptypb.Empty), exec.Command("/bin/true").Run()
	}
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "floor.Floor", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Run", Handler: handle}}}, nil)
	return nil
}

func (service) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return c, nil
}

func main() {
	switch {
	case len(os.Args) == 1:
	case os.Args[1] == "server":
		serveClients(os.Args[2])
	case os.Args[1] == "engine":
		serveEngine(os.Args[2])
	default:
		return
	}
	set := plugin.PluginSet{"floor": service{}}
	if os.Getenv(handshake.MagicCookieKey) != "" {
		plugin.Serve(&plugin.ServeConfig{HandshakeConfig: handshake, Plugins: set, GRPCServer: plugin.DefaultGRPCServer, Logger: hclog.NewNullLogger()})
		return
	}
	if err := host(set); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func host(set plugin.PluginSet) error {
	c := plugin.NewClient(&plugin.ClientConfig{HandshakeConfig: handshake, Plugins: set, Cmd: exec.Command(os.Args[0]),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, Logger: hclog.NewNullLogger()})
	defer c.Kill()
	protocol, err := c.Client()
	if err != nil {
		return err
	}
	conn, err := protocol.Dispense("floor")
	if err != nil {
		return err
	}
	return conn.(*grpc.ClientConn).Invoke(context.Background(), run, new(emptypb.Empty), new(emptypb.Empty))
}
