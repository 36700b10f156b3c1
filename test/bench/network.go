package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/sbxhost/sbxhost/host"
)

const smallRequests = 1000

// measureNetwork tells what the gate costs: commands with its network beside commands with the
// host's. What passes through it goes to a port of the host, since the machine may know no
// name that leads to this process.
func measureNetwork(ctx context.Context, s *scene, o options, r *report) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.ParseInt(r.URL.Path[1:], 10, 64)
		io.CopyN(w, zeros{}, n)
	})}
	go server.Serve(listener)
	defer server.Close()

	h := s.host(ctx, s.workspace, func(o *host.Options) {
		o.Sandboxes = map[string]host.Definition{
			"false":  {Engine: "native"},
			"listed": {Engine: "native", Network: host.Network{Names: []string{"allowed.example"}}},
			"direct": {Engine: "native", Network: host.Network{Host: true}},
			"port":   {Engine: "native", HostPorts: []uint16{uint16(listener.Addr().(*net.TCPAddr).Port)}},
		}
	})
	const none, listed = "network = false", "a list of names"
	r.compare(ctx, "Network, ready", []contender{
		{name: none, run: inLibrary(ctx, h, "false")},
		{name: listed, run: inLibrary(ctx, h, "listed")},
	}, o.rounds)
	// Noise can make it less than nothing, which is no miss.
	r.atMost("a list of names, ready, more than without", max(.01, r.medians[listed]-r.medians[none]), 4, "ms")
	const direct, gate = "direct", "through the gate"
	pass := func(what string, requests, size int64) {
		in := func(sandbox string) func() error {
			url := fmt.Sprintf("http://%s/%d?[1-%d]", listener.Addr(), size, requests)
			return func() error {
				return h.Command(ctx, sandbox, "curl", "-sSf", "-H", "Connection: close", "-o", "/dev/null", url).Run()
			}
		}
		r.compare(ctx, "Network, "+what, []contender{{name: direct, run: in("direct")}, {name: gate, run: in("port")}}, min(o.rounds, 10))
	}
	pass(fmt.Sprintf("%d small requests, each on a connection of its own", smallRequests), smallRequests, 100)
	r.atMost("small requests through the gate, of direct", r.of(gate, direct), 1.3, "x")
	pass(fmt.Sprintf("a download of %d MiB", o.bytes>>20), 1, o.bytes)
	r.atLeast("download through the gate, speed of direct", r.of(direct, gate), .7, "x")
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
