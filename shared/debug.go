package shared

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// ReattachEnv names the environment variable that has a host attach to engines
// that somebody has started, under a debugger as a rule, in place of starting
// its own: a JSON object of [Reattach] by engine name, as the engine's -debug
// flag prints it.
const ReattachEnv = "SBXHOST_REATTACH_ENGINES"

// Reattach says how to reach an engine that was started with -debug. Whoever
// knows it can ask that engine for sandboxes of any kind.
type Reattach struct {
	Protocol uint   `json:"protocol"` // Handshake.ProtocolVersion of the engine
	PID      int    `json:"pid"`      // for people
	Socket   string `json:"socket"`   // absolute path
	Token    string `json:"token"`    // what calls have to carry
}

// ParseReattach reads the value of [ReattachEnv]. Empty text means no engine. The
// error names the variable, and the engine whose value is wrong or which speaks
// another version of the protocol.
func ParseReattach(text string) (map[string]Reattach, error) {
	if text == "" {
		return nil, nil
	}
	var engines map[string]Reattach
	if err := json.Unmarshal([]byte(text), &engines); err != nil {
		return nil, fmt.Errorf("%s: %w: it takes what an engine's -debug flag prints", ReattachEnv, err)
	}
	for name, r := range engines {
		switch {
		case !filepath.IsAbs(r.Socket):
			return nil, fmt.Errorf("%s: engine %q: socket %q is not an absolute path", ReattachEnv, name, r.Socket)
		case r.Protocol != Handshake.ProtocolVersion:
			return nil, fmt.Errorf("%s: engine %q speaks protocol version %d, and this program version %d",
				ReattachEnv, name, r.Protocol, Handshake.ProtocolVersion)
		}
	}
	return engines, nil
}

// Attach connects to an engine that was started with -debug. Its stdio is
// streamed. The engine outlives the connection, which the caller closes;
// sandboxes opened by it do not. Nothing is sent before the first call: an engine
// that is not there is the ErrEngineLost of that.
func Attach(r Reattach) (Engine, io.Closer, error) {
	options := append(DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(callToken(r.Token)))
	conn, err := grpc.NewClient("unix:"+r.Socket, options...)
	if err != nil {
		return nil, nil, err
	}
	return NewClient(conn, nil), conn, nil
}

// serveDebug serves engine until an interrupt, to whoever is told how on
// stderr.
func serveDebug(engine Engine, stderr io.Writer) error {
	info, err := engine.Info(context.Background())
	if err != nil {
		return err
	}
	// Private, so that the socket is nobody else's to connect to or replace.
	dir, err := os.MkdirTemp("", RuntimeDirPrefix+"debug-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.Abs(dir); err != nil { // TMPDIR need not be absolute, what is printed is
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	token := newCallToken()
	log := hclog.New(&hclog.LoggerOptions{Level: logLevel(), Output: stderr})
	s := newServer(engine, nil, log)
	l, err := s.listen(dir, token, nil, nil)
	if err != nil {
		return err
	}
	value, err := json.Marshal(map[string]Reattach{info.Name: {
		Protocol: Handshake.ProtocolVersion, PID: os.Getpid(), Socket: l.address(), Token: string(token),
	}})
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "Engine %q is ready for a debugger, as process %d. Interrupt ends it. Run sbxhost with\n\n  %s='%s'\n\n",
		info.Name, os.Getpid(), ReattachEnv, strings.ReplaceAll(string(value), "'", `'\''`)) // as a shell reads it
	defer context.AfterFunc(ctx, l.Stop)()
	if err := l.serve(); err != nil {
		return err
	}
	ending, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	return s.shutdown(ending)
}
