package daemon

import (
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

// TestConnectRefuses speaks to servers that are no daemon to run commands with.
func TestConnectRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answers map[string]string
		says    string
	}{
		"Podman":           {map[string]string{"/info": `{"OSType":"linux"}`, "/version": `{"Components":[{"Name":"Podman Engine","Version":"5.2.0"}]}`}, "is Podman"},
		"Windows":          {map[string]string{"/info": `{"OSType":"windows"}`}, "needs Linux"},
		"no daemon at all": {nil, "no Docker daemon answers"},
	} {
		socket := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Api-Version", "1.41")
			for path, answer := range tt.answers {
				if strings.HasSuffix(r.URL.Path, path) {
					w.Write([]byte(answer))
					return
				}
			}
			if !strings.HasSuffix(r.URL.Path, "/_ping") {
				w.WriteHeader(http.StatusNotFound)
			}
		})}
		go server.Serve(l)
		_, err = Connect(t.Context(), endpoint{socket, "the test"})
		if !errors.Is(err, shared.ErrUnavailable) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v", name, err)
		}
		server.Close()
	}
}

// That there is no daemon on this machine is a finding, and that none answers is not:
// it may be dead, or starved.
func TestConnectFinds(t *testing.T) {
	t.Parallel()
	dead := filepath.Join(t.TempDir(), "dead")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	for socket, finds := range map[string]bool{dead: false, dead + "-not": true} {
		if _, err := Connect(t.Context(), endpoint{socket, "the test"}); !errors.Is(err, shared.ErrUnavailable) || errors.Is(err, shared.ErrUnusable) != finds {
			t.Errorf("%s: got %v", socket, err)
		}
	}
}

func TestRecursiveReadOnly(t *testing.T) {
	t.Parallel()
	for kernel, want := range map[string]bool{"6.1.0-18-amd64": true, "5.12.0": true, "5.11.9": false, "4.19": false, "": false, "x": false} {
		if recursiveReadOnly(kernel) != want {
			t.Errorf("%q: %v", kernel, !want)
		}
	}
}
