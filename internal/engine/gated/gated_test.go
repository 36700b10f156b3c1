package gated

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/internal/egress/gate"
	"github.com/sbxhost/sbxhost/shared"
)

func TestRead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spec  shared.Network
		none  bool
		wants string // what an error begins with
	}{
		"none":         {none: true},
		"the host's":   {spec: shared.Network{Mode: shared.NetworkHost, HostPorts: []uint16{1}}, none: true},
		"no names":     {spec: shared.Network{Mode: shared.NetworkNames}},
		"a port":       {spec: shared.Network{HostPorts: []uint16{1}}},
		"an address":   {spec: shared.Network{Mode: shared.NetworkNames, Names: []string{"a.example", "10.0.0.1"}}, wants: "network: "},
		"no such port": {spec: shared.Network{Publish: []string{"80", "x"}}, wants: "publish[1]: "},
	} {
		n, err := Read(&shared.Spec{Network: tt.spec})
		switch {
		case tt.wants != "":
			if !errors.Is(err, shared.ErrInvalidSpec) || !strings.HasPrefix(err.Error(), tt.wants) {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil || (n == nil) != tt.none:
			t.Errorf("%s: %+v, %v", name, n, err)
		}
	}
}

// Users cannot listen below 1024, and that is no fault of the engine.
func TestUnpublished(t *testing.T) {
	t.Parallel()
	refused, _ := errors.AsType[*shared.Error](unpublished(1, &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EACCES)}))
	if refused.Kind != shared.ErrDenied || refused.Attribute != "publish[1]" || !strings.Contains(refused.Hint, "1024") {
		t.Errorf("got %+v", refused)
	}
	if err := unpublished(0, syscall.EMFILE); !errors.Is(err, shared.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

// A command is told of a proxy where names are listed, and of none for ports alone.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	for _, named := range []bool{false, true} {
		spec := shared.Network{Publish: []string{"127.0.0.1:0:80"}}
		if named {
			spec.Mode = shared.NetworkNames
		}
		n, err := Read(&shared.Spec{Network: spec})
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		g, err := n.Begin(Way{Proxy: &gate.Proxy{Listener: l}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		env := []string{"A=1", "HTTP_PROXY=http://other.example", "no_proxy=*", "HTTP_PROXY_=x"}
		got := n.Environment(env, g)
		if !named {
			if !slices.Equal(got, env) {
				t.Errorf("for ports alone: %q", got)
			}
			continue
		}
		if !slices.Equal(got[:2], []string{"A=1", "HTTP_PROXY_=x"}) || !slices.Contains(got, "HTTP_PROXY=http://"+l.Addr().String()) || slices.Contains(got, "no_proxy=*") {
			t.Errorf("got %q", got)
		}
		names := map[string]bool{}
		for _, v := range got {
			name, _, _ := strings.Cut(v, "=")
			if names[name] {
				t.Errorf("%s is there twice", name)
			}
			names[name] = true
		}
	}
}

// What cannot be begun is an error about its attribute, and leaves nothing. A port that is taken is told.
func TestTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	n, err := Read(&shared.Spec{Network: shared.Network{Publish: []string{taken.Addr().String() + ":80"}}})
	if err != nil {
		t.Fatal(err)
	}
	without, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	g, err := n.Begin(Way{Proxy: &gate.Proxy{Listener: without}})
	if err != nil || len(g.notes) != 1 || !strings.Contains(g.notes[0].Message, "publish[0]: another program listens on "+taken.Addr().String()) {
		t.Fatalf("%+v, %v", g, err)
	}
	g.Close()
	if n, err = Read(&shared.Spec{Network: shared.Network{Publish: []string{"192.0.2.1:8080:80"}}}); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Begin(Way{Proxy: &gate.Proxy{Listener: l}}); !errors.Is(err, shared.ErrUnavailable) || !strings.HasPrefix(err.Error(), "publish[0]: ") {
		t.Errorf("%v", err)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("the proxy is still there")
	}
}

// An event of a gate is short, whatever a command asks for: as many as a buffer takes are in
// host and engine at once.
func TestEventsAreShort(t *testing.T) {
	t.Parallel()
	const longest = 2560
	n, err := Read(&shared.Spec{Network: shared.Network{Mode: shared.NetworkNames, Names: []string{"a.example"}}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	g, err := n.Begin(Way{Proxy: &gate.Proxy{Listener: l}})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan shared.Event, 10)
	g.Hear(func(e shared.Event) { told <- e }, true)
	for _, request := range []string{
		"CONNECT " + strings.Repeat("\x01", 10_000) + ":1 HTTP/1.1\r\n\r\n",
		"CONNECT " + strings.Repeat(strings.Repeat("x", 60)+".", 4) + "example:1 HTTP/1.1\r\n\r\n",
	} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, request)
		e := <-told
		c.Close()
		size := len(e.Message)
		for key, text := range e.Details {
			size += len(key) + len(text)
		}
		if size > longest || size < 400 || e.Details["by"] != "a command of this session" {
			t.Errorf("%d bytes: %+v", size, e)
		}
	}
	g.Close()
}
