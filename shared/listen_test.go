package shared

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	pb "github.com/sbxhost/sbxhost/shared/enginepb"
)

func TestListen(t *testing.T) {
	dir, err := os.MkdirTemp("", "listen") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := newServer(&testEngine{}, nil, hclog.NewNullLogger())
	l, err := s.listen(dir, "token", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var line bytes.Buffer
	if err := l.announce(&line); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("1|%d|unix|%s|grpc|\n", Handshake.ProtocolVersion, l.address()); line.String() != want || !strings.HasPrefix(l.address(), dir+"/plugin") {
		t.Errorf("got %q, want %q below %s", line.String(), want, dir)
	}
	ended := make(chan error)
	go func() { ended <- l.serve() }()
	for token, want := range map[callToken]bool{"token": true, "other": false} {
		engine, conn, err := Attach(Reattach{Socket: l.address(), Token: string(token)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := engine.Info(t.Context()); (err == nil) != want {
			t.Errorf("token %q: %v", token, err)
		}
		conn.Close()
	}
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
			s := newServer(&testEngine{}, nil, hclog.NewNullLogger())
			if _, err := s.listen(t.TempDir(), "", nil, nil); err == nil || !strings.HasPrefix(err.Error(), name+": ") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// An engine saves memory from the first command on whose files are streamed,
// and not for those whose files are handed over.
func TestStreamsIsCalled(t *testing.T) {
	s := newServer(&testEngine{}, nil, hclog.NewNullLogger())
	called := 0
	s.streams = func() { called++ }
	for _, c := range []struct {
		present uint32
		want    int
	}{{0, 0}, {hasStdout, 1}} {
		stdio, pipes, err := s.stdio(t.Context(), &pb.RunRequest{StdioPresent: c.present})
		if err != nil {
			t.Fatal(err)
		}
		pipes.close()
		if stdio.Stdout != nil {
			stdio.Stdout.Close()
		}
		if called != c.want {
			t.Errorf("stdio %b: called %d times, want %d", c.present, called, c.want)
		}
	}
}
