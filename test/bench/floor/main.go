//go:build linux

// Floor is the least that a host and its plugin can be: what go-plugin and gRPC alone cost.
// With the word exit it links them and ends; without a word it is a host that starts itself as
// a plugin, by which it runs true, without a sandbox. With the word server and the path of a socket,
// it runs true in a sandbox for each client there.
package main

import (
	"context"
	"os"
	"os/exec"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/sbxhost/sbxhost/test/bench/floor/pass"
)

var handshake = plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "SBXHOST_FLOOR", MagicCookieValue: "1"}

// service has one call, which runs true.
type service struct {
	plugin.NetRPCUnsupportedPlugin
	run func() error
}

const run = "/floor.Floor/Run"

func (f service) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	handle := func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		if err := decode(new(emptypb.Empty)); err != nil {
			return nil, err
		}
		return new(emptypb.Empty), f.run()
	}
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "floor.Floor", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Run", Handler: handle}}}, nil)
	return nil
}

func (service) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return c, nil
}

func main() {
	switch {
	case os.Getenv(handshake.MagicCookieKey) != "":
		f := service{run: func() error { return exec.Command("/bin/true").Run() }}
		if len(os.Args) > 1 {
			ahead <- startInit()
			f.run = runServed
		}
		plugin.Serve(&plugin.ServeConfig{HandshakeConfig: handshake, Plugins: plugin.PluginSet{"floor": f}, GRPCServer: plugin.DefaultGRPCServer, Logger: hclog.NewNullLogger()})
	case len(os.Args) == 1:
		c, call := start(exec.Command(os.Args[0]))
		err := call()
		c.Kill()
		pass.Check(err)
	case os.Args[1] == "server":
		serveClients(os.Args[2])
	}
}

// start starts a plugin, and returns its call.
func start(cmd *exec.Cmd) (c *plugin.Client, call func() error) {
	c = plugin.NewClient(&plugin.ClientConfig{HandshakeConfig: handshake, Plugins: plugin.PluginSet{"floor": service{}}, Cmd: cmd,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, Logger: hclog.NewNullLogger()})
	conn := pass.Must(pass.Must(c.Client()).Dispense("floor")).(*grpc.ClientConn)
	return c, func() error { return conn.Invoke(context.Background(), run, new(emptypb.Empty), new(emptypb.Empty)) }
}
