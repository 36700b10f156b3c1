package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/sbxhost/sbxhost/host"
)

// networkTable tells what the gate costs: commands with its network beside commands with the
// host's. What passes through it goes to a port of the host, since the machine may know no
// name that leads to this process.
type networkTable struct {
	Ready []row   `json:"ready"` // with no network, and with a list
	Small []row   `json:"small"` // requests: directly, through the gate, and through a plain relay
	Big   []row   `json:"big"`   // a download, the same ways
	MiB   float64 `json:"gate_mib"`
}

const (
	smallRequests   = 1000
	heldConnections = 100
)

func measureNetwork(ctx context.Context, s *scene, rounds int, bytes int64) (_ *networkTable, err error) {
	dir := filepath.Join(s.dir, "network")
	client := filepath.Join(dir, "client")
	self, err := os.Executable()
	if err == nil {
		err = errors.Join(os.Mkdir(dir, 0o700), install(self, client))
	}
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.ParseInt(r.URL.Path[1:], 10, 64)
		io.CopyN(w, zeros{}, n)
	})}
	go server.Serve(listener)
	defer func() { err = errors.Join(err, server.Close()) }()
	port, address := listener.Addr().(*net.TCPAddr).Port, listener.Addr().String()
	relay, stop, err := startRelay(ctx, self, address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()

	o := libraryOptions(s.dir)
	o.Dir, o.Workspace.Root = dir, dir
	o.Sandboxes = map[string]host.Definition{
		"false":  {Engine: "native"},
		"listed": {Engine: "native", Network: host.Network{Names: []string{"allowed.example"}}},
		"direct": {Engine: "native", Network: host.Network{Host: true}},
		"port":   {Engine: "native", HostPorts: []uint16{uint16(port)}},
	}
	h, err := host.New(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	t := &networkTable{}
	if t.Ready, err = compare(ctx, []contender{
		{name: "network = false", run: func() error { return runLibrary(ctx, h, "false") }},
		{name: "a list of names", run: func() error { return runLibrary(ctx, h, "listed") }},
	}, rounds); err != nil {
		return t, err
	}
	for _, m := range []struct {
		rows           *[]row
		what           string
		requests, size int64
	}{
		{&t.Small, fmt.Sprintf("%d small requests", smallRequests), smallRequests, 100},
		{&t.Big, fmt.Sprintf("a download of %d MiB", bytes>>20), 1, bytes},
	} {
		in := func(sandbox, address string) func() error {
			args := []string{client, roleClient, address, strconv.FormatInt(m.requests, 10), strconv.FormatInt(m.size, 10)}
			return func() error { return h.Command(ctx, sandbox, args...).Run() }
		}
		if *m.rows, err = compare(ctx, []contender{
			{name: m.what + ", direct", run: in("direct", address)},
			{name: m.what + ", gate", run: in("port", address)},
			{name: m.what + ", plain relay", run: in("direct", relay)},
		}, min(rounds, 10)); err != nil {
			return t, err
		}
	}

	config := filepath.Join(s.dir, "network.hcl")
	if err := os.WriteFile(config, fmt.Appendf(nil, "sandbox \"port\" {\n  engine     = \"native\"\n  host_ports = [%d]\n}\n", port), 0o644); err != nil {
		return t, err
	}
	var sums [2]int64
	for i, held := range []int{0, heldConnections} {
		cmd := exec.CommandContext(ctx, s.lean, "exec", "-config", config, "-sandbox", "port", "--",
			client, roleHolder, address, strconv.Itoa(held))
		cmd.Dir, cmd.Env = dir, environ(s.dir)
		p, err := s.peakOf(cmd)
		if err != nil {
			return t, err
		}
		sums[i] = p.Host + p.Engine
	}
	t.MiB = mebibytes(sums[1] - sums[0])
	return t, nil
}

// startRelay starts what any way through another process costs at the least: a relay that
// checks nothing, as an engine's process is.
func startRelay(ctx context.Context, self, to string) (at string, stop func() error, err error) {
	cmd := exec.CommandContext(ctx, self, roleRelay, to)
	cmd.Env, cmd.Stderr = append(os.Environ(), "GOMAXPROCS=1"), os.Stderr
	alive, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", nil, err
	}
	stop = func() error { return errors.Join(alive.Close(), cmd.Wait()) }
	if err = json.NewDecoder(out).Decode(&at); err != nil {
		return "", nil, errors.Join(err, stop())
	}
	return at, stop, nil
}

// playRelay passes connections on for as long as stdin is open, and writes where it listens.
func playRelay(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s: want ADDRESS, got %q", roleRelay, args)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		for c, err := listener.Accept(); err == nil; c, err = listener.Accept() {
			go func() {
				defer c.Close()
				to, err := net.Dial("tcp", args[0])
				if err != nil {
					return
				}
				defer to.Close()
				go func() {
					io.Copy(to, c)
					to.(*net.TCPConn).CloseWrite()
				}()
				io.Copy(c, to)
			}()
		}
	}()
	if err := json.NewEncoder(os.Stdout).Encode(listener.Addr().String()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// playClient makes requests, each on a connection of its own.
func playClient(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("%s: want ADDRESS REQUESTS BYTES, got %q", roleClient, args)
	}
	var numbers [2]int64
	for i := range numbers {
		if err := json.Unmarshal([]byte(args[1+i]), &numbers[i]); err != nil {
			return err
		}
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range numbers[0] {
		response, err := client.Get(fmt.Sprintf("http://%s/%d", args[0], numbers[1]))
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil || n != numbers[1] {
			return fmt.Errorf("%d bytes of %d: %v", n, numbers[1], err)
		}
	}
	return nil
}

// playHolder keeps connections open on which something was said, for as long as stdin is open.
func playHolder(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%s: want ADDRESS CONNECTIONS, got %q", roleHolder, args)
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	for range n {
		c, err := net.Dial("tcp", args[0])
		if err != nil {
			return err
		}
		defer c.Close()
		fmt.Fprintf(c, "GET /100 HTTP/1.1\r\nHost: %s\r\n\r\n", args[0])
		if _, err := c.Read(make([]byte, 1)); err != nil {
			return err
		}
	}
	_, err = io.Copy(os.Stdout, os.Stdin)
	return err
}
