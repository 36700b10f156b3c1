package shared

import (
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
	"google.golang.org/grpc"
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
// is served to those who know the token. What can be read from stdout and
// stderr is for the host to have.
func (s *server) listen(dir string, t callToken, stdout, stderr io.Reader) (*listening, error) {
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
		Plugins: plugin.PluginSet{PluginName: &Plugin{server: s}},
		Server: func(opts []grpc.ServerOption) *grpc.Server {
			l.Server = grpc.NewServer(slices.Concat(opts, serverOptions(), t.serverOptions())...)
			return l.Server
		},
		Stdout: endless{stdout},
		Stderr: endless{stderr},
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
		plugin.CoreProtocolVersion, Handshake.ProtocolVersion, l.address(), plugin.ProtocolGRPC)
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

// endless never tells that there is no more to read: go-plugin has a logger for
// that which only its own Serve can set.
type endless struct{ io.Reader }

func (e endless) Read(p []byte) (int, error) {
	if e.Reader != nil {
		if n, err := e.Reader.Read(p); n > 0 || err == nil {
			return n, nil
		}
	}
	select {}
}
