package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sbxhost/sbxhost/host"
)

const smallRequests = 1000

// measureNetwork tells what the gate costs: commands with its network beside commands with the
// host's. What passes through it goes to a port of the host, since the machine may know no
// name that leads to this process.
func measureNetwork(ctx context.Context, s *scene, o options, r *report) (err error) {
	dir := filepath.Join(s.dir, "network")
	client := filepath.Join(dir, "client")
	self, err := os.Executable()
	if err == nil {
		err = errors.Join(os.Mkdir(dir, 0o700), install(self, client))
	}
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	secure, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	certificate, err := writeCertificate(filepath.Join(dir, certificateFile))
	if err != nil {
		return errors.Join(err, listener.Close(), secure.Close())
	}
	server := &http.Server{
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, _ := strconv.ParseInt(r.URL.Path[1:], 10, 64)
			io.CopyN(w, zeros{}, n)
		}),
	}
	go server.Serve(listener)
	go server.ServeTLS(secure, "", "")
	defer func() { err = errors.Join(err, server.Close()) }()
	var ports [2]uint16
	var relays [2]string
	for i, l := range [...]net.Listener{listener, secure} {
		ports[i] = uint16(l.Addr().(*net.TCPAddr).Port)
		at, stop, err2 := startRelay(ctx, self, l.Addr().String())
		if err2 != nil {
			return err2
		}
		defer func() { err = errors.Join(err, stop()) }()
		relays[i] = at
	}

	library := libraryOptions(s.dir)
	library.Dir, library.Workspace.Root = dir, dir
	library.Sandboxes = map[string]host.Definition{
		"false":  {Engine: "native"},
		"listed": {Engine: "native", Network: host.Network{Names: []string{"allowed.example"}}},
		"direct": {Engine: "native", Network: host.Network{Host: true}},
		"port":   {Engine: "native", HostPorts: ports[:]},
	}
	h, err := host.New(ctx, library)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	const none, listed = "network = false", "a list of names"
	if err := r.compare(ctx, "Network, ready", []contender{
		{name: none, run: func() error { return runLibrary(ctx, h, "false") }},
		{name: listed, run: func() error { return runLibrary(ctx, h, "listed") }},
	}, o.rounds); err != nil {
		return err
	}
	// Noise can make it less than nothing, which is no miss.
	r.atMost("a list of names, ready, more than without", max(.01, r.p50(listed)-r.p50(none)), 4, "ms")
	const direct, gate, plain = "direct", "through the gate", "through a plain relay"
	pass := func(what, scheme string, i int, requests, size int64) error {
		in := func(sandbox, address string) func() error {
			args := []string{client, roleClient, scheme + "://" + address, strconv.FormatInt(requests, 10), strconv.FormatInt(size, 10)}
			return func() error { return h.Command(ctx, sandbox, args...).Run() }
		}
		to := fmt.Sprintf("127.0.0.1:%d", ports[i])
		return r.compare(ctx, "Network, "+what, []contender{
			{name: direct, run: in("direct", to)}, {name: gate, run: in("port", to)}, {name: plain, run: in("direct", relays[i])},
		}, min(o.rounds, 10))
	}
	small := fmt.Sprintf("%d small requests, each on a connection of its own", smallRequests)
	if err := pass(small, "http", 0, smallRequests, 100); err != nil {
		return err
	}
	r.atMost("small requests through the gate, of direct", r.of(gate, direct), 1.3, "x")
	r.atMost("small requests through the gate, of a plain relay", r.of(gate, plain), 1.1, "x")
	if err := pass(small+", in TLS", "https", 1, smallRequests, 100); err != nil {
		return err
	}
	r.atMost("small requests in TLS through the gate, of direct", r.of(gate, direct), 1.3, "x")
	if err := pass(fmt.Sprintf("a download of %d MiB", o.bytes>>20), "http", 0, 1, o.bytes); err != nil {
		return err
	}
	r.atLeast("download through the gate, speed of direct", r.of(direct, gate), .7, "x")
	return nil
}

// startRelay starts what any way through another process costs at the least: a relay that
// checks nothing, as an engine's process is.
func startRelay(ctx context.Context, self, to string) (at string, stop func() error, err error) {
	cmd := exec.CommandContext(ctx, self, roleRelay, to)
	cmd.Env, cmd.Stderr = append(os.Environ(), "GOMAXPROCS=1"), os.Stderr
	alive, out, err := converse(cmd)
	if err != nil {
		return "", nil, err
	}
	stop = func() error { return errors.Join(alive.Close(), cmd.Wait()) }
	if err = json.NewDecoder(out).Decode(&at); err != nil {
		return "", nil, errors.Join(err, stop())
	}
	return at, stop, nil
}

// playRelay passes connections on to ADDRESS for as long as stdin is open, and writes where it listens.
func playRelay(args []string) error {
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

// certificateFile is where the client finds whom to trust.
const certificateFile = "certificate.pem"

// writeCertificate makes a certificate for all servers here, of the kind that the large registries have.
func writeCertificate(path string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:         true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err == nil {
		err = os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// playClient, with URL, REQUESTS and BYTES, makes requests, each on a connection of its own.
func playClient(args []string) error {
	var numbers [2]int64
	for i := range numbers {
		if err := json.Unmarshal([]byte(args[1+i]), &numbers[i]); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(certificateFile)
	if err != nil {
		return err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(text)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: trusted}}}
	for range numbers[0] {
		response, err := client.Get(fmt.Sprintf("%s/%d", args[0], numbers[1]))
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil || n != numbers[1] {
			return fmt.Errorf("%s: %d bytes of %d: %v", response.Status, n, numbers[1], err)
		}
	}
	return nil
}
