package shared

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/sbxhost/sbxhost/internal/wire"
	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// refusing is an engine that opens nothing.
type refusing struct{ Engine }

func (refusing) Info(context.Context) (Info, error) { return Info{}, nil }

func (refusing) Open(context.Context, Spec) (Sandbox, error) { return nil, ErrDenied }

// Who finds the engine's socket and is not its host is told nothing.
func TestListen(t *testing.T) {
	dir, err := os.MkdirTemp("", "listen") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := newServer(refusing{}, hclog.NewNullLogger())
	l, err := s.listen(dir, "token")
	if err != nil {
		t.Fatal(err)
	}
	address := l.listener.Addr().String()
	var line bytes.Buffer
	if err := l.announce(&line); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("1|%d|unix|%s|grpc|\n", wire.Handshake.ProtocolVersion, address); line.String() != want || !strings.HasPrefix(address, dir+"/plugin") {
		t.Errorf("got %q, want %q below %s", line.String(), want, dir)
	}
	ended := make(chan error)
	go func() { ended <- l.Serve(l.listener) }()
	conn, err := grpc.NewClient("unix:"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"", "token", "other"} {
		ctx := t.Context()
		if token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, wire.TokenKey, token)
		}
		_, err := pb.NewEngineClient(conn).Info(ctx, &pb.InfoRequest{})
		opening, openErr := pb.NewEngineClient(conn).Open(ctx, &pb.OpenRequest{Spec: &pb.Spec{}}) // a stream
		if openErr == nil {
			_, openErr = opening.Recv()
		}
		if token == "token" {
			if err != nil || status.Code(openErr) != codes.PermissionDenied {
				t.Errorf("its own token: %v, %v", err, openErr)
			}
		} else if status.Code(err) != codes.Unauthenticated || status.Code(openErr) != codes.Unauthenticated {
			t.Errorf("token %q: %v, %v", token, err, openErr)
		}
	}
	conn.Close()
	l.Stop()
	if err := <-ended; err != nil {
		t.Errorf("stopped: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// What go-plugin's own server does for a host that asks is not done quietly
// without.
func TestListenRefuses(t *testing.T) {
	for _, name := range []string{"PLUGIN_CLIENT_CERT", plugin.EnvUnixSocketGroup} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "asked")
			s := newServer(refusing{}, hclog.NewNullLogger())
			if _, err := s.listen(t.TempDir(), ""); err == nil || !strings.HasPrefix(err.Error(), name+": ") {
				t.Errorf("got %v", err)
			}
		})
	}
}
