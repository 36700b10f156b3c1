package driver

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	baseproto "github.com/hashicorp/nomad/plugins/base/proto"
	"github.com/hashicorp/nomad/plugins/drivers/proto"
	"google.golang.org/grpc"
)

// handshake is what the agent and a plugin agree on at the start; see Nomad's plugins/base.
var handshake = plugin.HandshakeConfig{
	ProtocolVersion: 2, MagicCookieKey: "NOMAD_PLUGIN_MAGIC_COOKIE",
	MagicCookieValue: "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255",
}

const (
	pluginName = "sbxhost"
	apiVersion = "v0.1.0"
)

// Main runs the driver, or with the argument "executor" the executor of one task. It returns the
// exit status.
func Main(args []string) int {
	if len(args) == 1 && args[0] == executorArg {
		if err := serveExecutor(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	logger := hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, JSONFormat: true})
	d := &driver{events: make(chan *proto.DriverTaskEvent), tasks: map[string]*task{}}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: handshake, Logger: logger, GRPCServer: plugin.DefaultGRPCServer,
		Plugins: map[string]plugin.Plugin{"base": service{register: func(s *grpc.Server) { baseproto.RegisterBasePluginServer(s, d) }},
			"driver": service{register: func(s *grpc.Server) { proto.RegisterDriverServer(s, d) }}},
	})
	return 0
}

// A service is what the plugin serves. On the agent's side it is the connection.
type service struct {
	plugin.NetRPCUnsupportedPlugin
	register func(*grpc.Server)
}

func (s service) GRPCServer(_ *plugin.GRPCBroker, server *grpc.Server) error {
	s.register(server)
	return nil
}

func (service) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// version returns the module's version in a form that Nomad takes.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		text, _, _ := strings.Cut(info.Main.Version[1:], "+")
		return text
	}
	return "0.0.0"
}
