package gate

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/internal/egress"
)

func TestHostPort(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, func(c *Config) { c.HostPorts = []uint16{5000, 5001, 5002, 80} }, "a.example")
	w.answer("a.example", public)
	w.serve("127.0.0.1:5000", echo)
	w.serve("127.0.0.1:80", echo)
	w.serve("[::1]:5001", echo)
	resolve(t, "a.example") // has the gate listen on port 80 for all names
	for _, port := range []uint16{5000, 5001, 80} {
		for _, addr := range []netip.Addr{loopback4, loopback6} {
			exchange(t, dialAddr(t, netip.AddrPortFrom(addr, port)), "hello", "hello")
		}
	}
	if d := w.decision("localhost", 5000, true); d.Sent != 5*d.Connections || d.Received != d.Sent || d.Address != "127.0.0.1" {
		t.Errorf("%+v", d)
	}
	dialReset(t, netip.AddrPortFrom(loopback4, 5002))
	if d := w.decision("localhost", 5002, true); d.Reason == "" {
		t.Errorf("%+v", d)
	}
	l, err := net.Listen("tcp", "127.0.0.1:5003")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = Start(Config{Sockets: sockets, HostPorts: []uint16{5003}})
	if port, ok := errors.AsType[*HostPortError](err); !ok || port.Port != 5003 || !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v", err)
	}
}

// The kernel gives the proxy any port that is free; one of the host's is not.
func TestHostPortAndProxy(t *testing.T) {
	if !inside(t) {
		return
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("5000 5007"), 0); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *Config) {
		c.HostPorts, c.Proxy = []uint16{5000, 5001, 5002, 5003, 5004, 5005, 5006}, &Proxy{}
	})
	if w.proxyAt.Port() != 5007 {
		t.Errorf("the proxy is at %v", w.proxyAt)
	}
}

func TestPublish(t *testing.T) {
	if !inside(t) {
		return
	}
	w := newWorld(t, nil)
	publish := func(text string) netip.AddrPort {
		t.Helper()
		p, err := egress.ParsePublish(text)
		if err != nil {
			t.Fatal(err)
		}
		at, err := w.Publish(p)
		if err != nil || at.Port() == 0 || at.Addr() != p.Listen.Addr() {
			t.Fatalf("%v, error %v", at, err)
		}
		return at
	}
	first, second, third := publish("0:6000"), publish("[::1]:0:6001"), publish("0:6002")
	for _, inside := range []string{"127.0.0.1:6000", "[::1]:6001"} {
		l, err := net.Listen("tcp", inside)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				go func() {
					defer c.Close()
					io.Copy(c, c)
				}()
			}
		}()
	}
	exchange(t, dialAddr(t, first), "hello", "hello")
	exchange(t, dialAddr(t, second), strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<20))
	dialReset(t, third)
	if _, err := w.Publish(egress.Publish{Listen: first, Inside: 1}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.told) != 0 {
		t.Errorf("%+v", w.told)
	}
}
