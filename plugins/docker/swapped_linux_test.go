package docker

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

// atStart makes an engine whose daemon calls do before it starts a container, when the engine has
// looked at the host's files and nothing is mounted, and then undo.
func atStart(t *testing.T, do, undo func() error) *engine {
	t.Helper()
	e := newEngine(t)
	real := strings.TrimPrefix(e.surroundings.Getenv("DOCKER_HOST"), "unix://")
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "daemon"})
	proxy.FlushInterval = -1
	proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", real)
	}}
	socket := filepath.Join(dir(t), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/start") {
			proxy.ServeHTTP(w, r)
			return
		}
		err := do()
		proxy.ServeHTTP(w, r)
		if err := errors.Join(err, undo()); err != nil {
			t.Error(err)
		}
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	getenv := e.surroundings.Getenv
	e.surroundings.Getenv = func(name string) string {
		if name == "DOCKER_HOST" {
			return "unix://" + socket
		}
		return getenv(name)
	}
	return e
}

// TestSwapped has somebody swap a directory of the workspace with a symlink when the engine has
// looked, and put it back when the container has started, or leave a symlink that stays in the workspace.
func TestSwapped(t *testing.T) {
	t.Parallel()
	home := dir(t, "secret", "guarded", "keys/key")
	for name, protect := range map[string]shared.Entry{
		"source":      {Source: "/d", Path: "/shown", Access: shared.ReadWrite, Why: "bind_paths[0]"},
		"destination": {Source: "/d/guarded", Path: "/w/d/guarded", Access: shared.ReadOnly, Why: "protect_paths[0]"},
		"private":     {Path: "/w/d/keys", Access: shared.Private, Why: "bind_paths[0]"},
		"stays":       {Path: "/w/d", Access: shared.Private, Why: "bind_paths[0]"},
		"mask":        {Path: "/w/d/secret", Access: shared.Hidden, Why: "deny_paths[0]"},
		"mask of all": {Path: "/w/d/keys", Access: shared.Hidden, Why: "deny_paths[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ws, to := dir(t, "d/guarded", "d/secret", "d/keys/key", "other/keys/key"), home
			undo := func() error { return errors.Join(os.Remove(ws+"/d"), os.Rename(ws+"/real", ws+"/d")) }
			if name == "stays" {
				to, undo = "other", func() error { return nil }
			}
			e := atStart(t, func() error { return errors.Join(os.Rename(ws+"/d", ws+"/real"), os.Symlink(to, ws+"/d")) }, undo)
			if protect.Source != "" {
				protect.Source = ws + protect.Source
			}
			sandbox, err := e.Open(t.Context(), shared.Spec{Options: rawOptions(t, opts{}), Table: []shared.Entry{
				{Source: ws, Path: "/w", Access: shared.ReadWrite, Why: "workspace"}, protect}})
			if err != nil {
				t.Fatal(err)
			}
			defer sandbox.Close(context.Background())
			p, err := sandbox.Start(t.Context(), script("cat /w/d/secret /w/d/keys/key; echo ran > /w/ran; echo x > /shown/new"), shared.Stdio{})
			if err == nil {
				p.Wait(t.Context())
				t.Error("the command runs")
			}
			for _, made := range []string{ws + "/ran", home + "/new"} {
				if _, err := os.Lstat(made); err == nil {
					t.Errorf("%s exists", made)
				}
			}
		})
	}
}

// TestLinkOfTheImage has a bind's place lead through a symlink of the image.
func TestLinkOfTheImage(t *testing.T) {
	t.Parallel()
	daemonFor(t) // which needs busybox
	busybox, err := exec.LookPath("busybox")
	if err == nil {
		busybox, err = filepath.EvalSymlinks(busybox)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, shared.Spec{Options: rawOptions(t, opts{}), Table: []shared.Entry{{Source: busybox, Path: "/bin/yes", Access: shared.ReadOnly, Why: "bind_paths[0]"}}})
	if out := sh(t, s, "grep -c ' /bin/busybox ' /proc/self/mountinfo"); out.stdout != "1\n" {
		t.Errorf("got %+v", out)
	}
}
