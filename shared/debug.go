//go:build unix

package shared

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/sbxhost/sbxhost/internal/wire"
)

// serveDebug serves engine until an interrupt. It prints on stderr how to connect.
func serveDebug(engine Engine, stderr io.Writer) error {
	info, err := engine.Info(context.Background())
	if err != nil {
		return err
	}
	// Private: nobody else may connect to the sockets or replace them.
	dir, err := os.MkdirTemp("", wire.TempDirPrefix+"debug-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.Abs(dir); err != nil { // TMPDIR may be relative; the printed path must be absolute
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	logger := hclog.New(&hclog.LoggerOptions{Level: logLevel(), Output: stderr})
	takeLog(logger)
	s := newServer(engine, logger)
	reattach := wire.Reattach{Protocol: wire.Handshake.ProtocolVersion, PID: os.Getpid(), Token: rand.Text()}
	l, err := s.listen(dir, reattach.Token)
	if err != nil {
		return err
	}
	reattach.Socket = l.address()
	channels, err := net.ListenUnix("unix", &net.UnixAddr{Name: reattach.ChannelSocket(), Net: "unix"})
	if err != nil {
		return err
	}
	go func() {
		for {
			channel, err := channels.AcceptUnix()
			if err != nil {
				return
			}
			go func() {
				defer channel.Close()
				_ = s.inbox.receive(channel) // if files do not arrive, the call that names them fails
			}()
		}
	}()
	value, err := json.Marshal(map[string]wire.Reattach{info.Name: reattach})
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "Engine %q is ready for a debugger, as process %d. Interrupt ends it. Run its host with\n\n  %s='%s'\n\n",
		info.Name, os.Getpid(), wire.ReattachEnv, strings.ReplaceAll(string(value), "'", `'\''`)) // as a shell reads it
	defer context.AfterFunc(ctx, l.Stop)()
	if err := l.serve(); err != nil {
		return err
	}
	ending, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	return s.shutdown(ending)
}
