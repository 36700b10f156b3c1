package shared_test

import (
	"context"
	. "github.com/sbxhost/sbxhost/shared"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/dial"
	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// A transport brings an engine within reach; what it opens is closed with t.
type transport struct {
	name    string
	connect func(t testing.TB, e Engine) Engine
}

func transports() []transport {
	return []transport{
		{"in process", func(_ testing.TB, e Engine) Engine { return e }},
		{"across the wire", func(t testing.TB, e Engine) Engine { return connect(t, e).engine }},
	}
}

// connection is both ends of a connection in this process.
type connection struct {
	engine Engine
	server *Server
	conn   *grpc.ClientConn
}

func connect(t testing.TB, e Engine) *connection {
	t.Helper()
	dir, err := os.MkdirTemp("", "wire") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &connection{server: NewServer(e)}
	server := grpc.NewServer(append(ServerOptions(""), grpc.WaitForHandlers(true))...)
	channel, engineEnd, err := dial.NewChannel()
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan struct{})
	go func() {
		defer close(received)
		c.server.Receive(engineEnd)
	}()
	t.Cleanup(func() {
		channel.Close()
		<-received
		engineEnd.Close()
	})
	pb.RegisterEngineServer(server, c.server)
	path := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(listener)
	c.conn, err = grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.conn.Close()
		server.Stop()
	})
	c.engine = dial.New(c.conn, channel)
	return c
}

// checkLeaks fails t when, after all later cleanups, there are more goroutines
// or descriptors than there are now. Tests that use it are not parallel.
func checkLeaks(t *testing.T) {
	t.Helper()
	r, w, err := os.Pipe() // starts the poller, which stays
	if err != nil {
		t.Fatal(err)
	}
	r.SetReadDeadline(time.Now())
	r.Close()
	w.Close()
	goroutines, descriptors := runtime.NumGoroutine(), countDescriptors(t)
	t.Cleanup(func() {
		deadline := time.Now().Add(time.Minute)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if runtime.NumGoroutine() <= goroutines && countDescriptors(t) <= descriptors {
				return
			}
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<20)
				stacks = stacks[:runtime.Stack(stacks, true)]
				t.Errorf("leak: %d goroutines (were %d), %d descriptors (were %d)\n%s",
					runtime.NumGoroutine(), goroutines, countDescriptors(t), descriptors, stacks)
				return
			}
		}
	})
}

func countDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func open(t testing.TB, e Engine) Sandbox {
	t.Helper()
	s, err := e.Open(t.Context(), Spec{Sandbox: "s", Unconfined: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}
