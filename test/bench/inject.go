package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// Names at port 443: requests to the one get a credential, those to the other pass as they are.
const (
	injectedName = "injected.example"
	passedName   = "passed.example"
	// tokenVariable is where a client finds what it sends.
	tokenVariable = "BENCH_TOKEN"
	benchToken    = "a-token-that-stays-outside"
	// trustedBundle is whom this machine trusts, and trustedFile what takes its place.
	trustedBundle = "/etc/ssl/certs/ca-certificates.crt"
	trustedFile   = "trusted.pem"
)

// measureInject tells what it costs that the gate puts a credential into requests, beside requests
// that it passes on. A machine of its own has a port 443 and the names that lead there.
func measureInject(ctx context.Context, s *scene, o options, r *report) (err error) {
	dir := filepath.Join(s.dir, "inject")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	bundle, err := filepath.EvalSymlinks(trustedBundle)
	if err != nil {
		return fmt.Errorf("install the package ca-certificates: %w", err)
	}
	hosts, trusted := filepath.Join(s.dir, "hosts"), filepath.Join(s.dir, trustedFile)
	if err := errors.Join(os.Mkdir(dir, 0o700), install(self, filepath.Join(dir, "client")), os.WriteFile(trusted, nil, 0o644),
		os.WriteFile(hosts, []byte("127.0.0.1 localhost "+injectedName+" "+passedName+"\n"), 0o644)); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "bwrap", "--die-with-parent", "--unshare-user", "--unshare-net", "--cap-add", "CAP_NET_BIND_SERVICE",
		"--dev-bind", "/", "/", "--ro-bind", hosts, "/etc/hosts", "--bind", trusted, bundle, self, roleInject, s.dir)
	cmd.Stderr = os.Stderr
	in, answers, err := converse(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close(), cmd.Wait()) }()
	requests := func(name string) contender {
		return contender{name: name, run: func() error {
			_, err := fmt.Fprintln(in, name)
			if err == nil {
				_, err = answers.ReadString('\n')
			}
			return err
		}}
	}
	if err := r.compare(ctx, fmt.Sprintf("Network, %d small requests with a credential", smallRequests),
		[]contender{requests(passedName), requests(injectedName)}, min(o.rounds, 10)); err != nil {
		return err
	}
	r.atMost("small requests with a credential put in, of the gate without", r.of(injectedName, passedName), 1.5, "x")
	return nil
}

// playInject is that machine: for each line of stdin, requests to the name that it says.
func playInject(args []string) (err error) {
	dir := filepath.Join(args[0], "inject")
	certificate, err := writeCertificate(filepath.Join(args[0], trustedFile))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:443")
	if err != nil {
		return err
	}
	server := &http.Server{
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if has := r.Header.Get("Authorization") == "Bearer "+benchToken; has != (r.Host == injectedName) {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			io.CopyN(w, zeros{}, 100)
		}),
	}
	go server.ServeTLS(listener, "", "")
	defer func() { err = errors.Join(err, server.Close()) }()
	ctx := context.Background()
	library := libraryOptions(args[0])
	library.Dir, library.Workspace.Root = dir, dir
	library.Credentials = map[string]host.Credential{"bench": {
		Hosts: []string{injectedName}, Env: map[string]shared.Secret{tokenVariable: benchToken},
		Placeholder: "Bearer sbxhost." + tokenVariable + ".placeholder", Value: "Bearer " + benchToken,
	}}
	library.Sandboxes = map[string]host.Definition{"inject": {Engine: "native", Credentials: []string{"bench"},
		Network: host.Network{Names: []string{injectedName + " private", passedName + " private"}}}}
	h, err := host.New(ctx, library)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		cmd := h.Command(ctx, "inject", filepath.Join(dir, "client"), roleClient, "https://"+lines.Text(), fmt.Sprint(smallRequests), "100")
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return err
		}
		fmt.Println()
	}
	return lines.Err()
}
