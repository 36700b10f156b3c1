package shared

import (
	"context"
	"errors"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"google.golang.org/grpc"
)

// PluginName is the name under which an engine is dispensed.
const PluginName = "engine"

// Handshake is how host and engine know each other in the terms of go-plugin.
// The cookie is no secret: it tells a person who starts an engine by hand from
// a host. It is not to be changed.
var Handshake = plugin.HandshakeConfig{
	ProtocolVersion:  2,
	MagicCookieKey:   "SBXHOST_ENGINE",
	MagicCookieValue: "5b0f8e0e7d1c4a6fb3c2a99d4f1e62d8c7a35e1190b64d27",
}

// Plugin is an engine as go-plugin sees it, from either side. A host puts it
// together like this:
//
//	channel, engineEnd, err := shared.NewChannel()
//	config := shared.ClientConfig(channel)
//	config.RunnerFunc = ... // or config.Cmd
//	// the runner's command inherits engineEnd, as number N, and has
//	// channel.Env(N) in its environment; engineEnd.Close() follows its start
//	client := plugin.NewClient(config)
//	protocol, err := client.Client()
//	engine, err := protocol.Dispense(shared.PluginName) // a shared.Engine
//	...
//	client.Kill()
//	channel.Close()
//
// The engine ends when the host's end of the channel is closed, which happens
// when the host dies, too.
type Plugin struct {
	plugin.NetRPCUnsupportedPlugin
	server  *server
	channel *Channel
}

var _ plugin.GRPCPlugin = (*Plugin)(nil)

// NewPlugin is the engine's side for an engine whose main does not use
// [Serve]. Without a channel, its stdio is streamed.
func NewPlugin(engine Engine) *Plugin {
	return &Plugin{server: newServer(engine, nil, hclog.L())}
}

// ClientPlugin is the host's side. What it dispenses is an [Engine], as
// [NewClient] makes it; ch may be nil.
func ClientPlugin(ch *Channel) *Plugin { return &Plugin{channel: ch} }

// ClientConfig is what a host's go-plugin client needs to know about engines.
// The caller adds how the engine is started, and its logger. The channel stays the
// caller's; with nil, stdio is streamed and calls carry no token.
func ClientConfig(ch *Channel) *plugin.ClientConfig {
	options := DialOptions()
	if ch != nil {
		options = append(options, grpc.WithPerRPCCredentials(ch.token))
	}
	return &plugin.ClientConfig{
		HandshakeConfig:  Handshake,
		Plugins:          plugin.PluginSet{PluginName: ClientPlugin(ch)},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		GRPCDialOptions:  options,
		SkipHostEnv:      true,
	}
}

// GRPCServer is called by go-plugin. The error says that p is the host's side.
func (p *Plugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	if p.server == nil {
		return errors.New("this is the host's side of an engine")
	}
	pb.RegisterEngineServer(s, p.server)
	return nil
}

// GRPCClient is called by go-plugin; it gives an [Engine], and no error.
func (p *Plugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return NewClient(conn, p.channel), nil
}

const (
	// maxMessage bounds one message: a command with a long script, or a
	// Spec with a long table.
	maxMessage = 64 << 20
	// streamWindow bounds what one stream has underway. A fixed window spares
	// gRPC's probing for a better one. With windows and buffers four times as
	// large a stream is a fifth faster, and the two sides together are five MiB larger.
	streamWindow = 256 << 10
	connWindow   = 16 << 20
	// ioBuffer is the size of a connection's read and write buffers.
	ioBuffer = 64 << 10
)

// DialOptions tune a host's connection for streamed stdio. A host without
// them, or in another language, works as well and is slower.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithReadBufferSize(ioBuffer),
		grpc.WithWriteBufferSize(ioBuffer),
		grpc.WithDisableRetry(),         // would keep a copy of what is sent
		grpc.WithDisableServiceConfig(), // nobody serves one
		grpc.WithIdleTimeout(0),         // open sandboxes are tied to the connection
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(maxMessage),
			grpc.MaxCallSendMsgSize(maxMessage),
		),
	}
}

func serverOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.ReadBufferSize(ioBuffer),
		grpc.WriteBufferSize(ioBuffer),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage),
	}
}
