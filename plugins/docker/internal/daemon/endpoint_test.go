package daemon

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

func TestFindEndpoint(t *testing.T) {
	t.Parallel()
	const meta = "/h/.docker/contexts/meta/b71199ebd070b36beab7317920c2c2f1d777df8d05e5527d8458fda57cb17a7a/meta.json" // sha256 of "remote"
	for name, tt := range map[string]struct {
		env   map[string]string
		files map[string]string
		want  string
		err   string
	}{
		"nothing":            {want: "/var/run/docker.sock"},
		"DOCKER_HOST":        {env: map[string]string{"DOCKER_HOST": "unix:///x/../y.sock"}, want: "/y.sock"},
		"over TCP":           {env: map[string]string{"DOCKER_HOST": "tcp://user:secret@far:2376"}, err: `a daemon with a "tcp" address`},
		"over ssh":           {env: map[string]string{"DOCKER_HOST": "ssh://far"}, err: "on another machine"},
		"relative":           {env: map[string]string{"DOCKER_HOST": "unix://x.sock"}, err: "not an absolute path"},
		"rootless":           {env: map[string]string{"XDG_RUNTIME_DIR": "/run/user/1"}, files: map[string]string{"/run/user/1/docker.sock": ""}, want: "/run/user/1/docker.sock"},
		"rootful first":      {env: map[string]string{"XDG_RUNTIME_DIR": "/run/user/1"}, files: map[string]string{"/run/user/1/docker.sock": "", "/var/run/docker.sock": ""}, want: "/var/run/docker.sock"},
		"context":            {files: map[string]string{"/h/.docker/config.json": `{"currentContext":"remote"}`, meta: `{"Endpoints":{"docker":{"Host":"unix:///c.sock"}}}`}, want: "/c.sock"},
		"context, far":       {files: map[string]string{"/h/.docker/config.json": `{"currentContext":"remote"}`, meta: `{"Endpoints":{"docker":{"Host":"tcp://far:2375"}}}`}, err: `the Docker context "remote"`},
		"context is default": {files: map[string]string{"/h/.docker/config.json": `{"currentContext":"default"}`}, want: "/var/run/docker.sock"},
		"context is gone":    {env: map[string]string{"DOCKER_CONTEXT": "gone"}, err: "does not exist"},
		"context is empty":   {env: map[string]string{"DOCKER_CONTEXT": "remote"}, files: map[string]string{meta: `{}`}, err: "no endpoint"},
		"host over context":  {env: map[string]string{"DOCKER_HOST": "unix:///y.sock", "DOCKER_CONTEXT": "gone"}, want: "/y.sock"},
		"broken config":      {files: map[string]string{"/h/.docker/config.json": `{`}, want: "/var/run/docker.sock"},
	} {
		if tt.env == nil {
			tt.env = map[string]string{}
		}
		tt.env["HOME"] = "/h"
		got, err := Find(Surroundings{
			Getenv: func(name string) string { return tt.env[name] },
			read: func(path string) ([]byte, error) {
				if text, ok := tt.files[path]; ok {
					return []byte(text), nil
				}
				return nil, fs.ErrNotExist
			},
			exists: func(path string) bool { _, ok := tt.files[path]; return ok },
		})
		switch {
		case tt.err == "" && (err != nil || got.Socket != tt.want || got.Origin == ""):
			t.Errorf("%s: got %+v, %v", name, got, err)
		case tt.err != "" && (!errors.Is(err, shared.ErrUnavailable) || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func FuzzDockerConfig(f *testing.F) {
	for _, seed := range []string{`{}`, `{"currentContext":"x"}`, `{"Endpoints":{"docker":{"Host":"unix:///x"}}}`, `[`, `{"Endpoints":[]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if host := decoded[contextMeta](raw).Endpoints["docker"].Host; host != "" {
			if at, err := unixEndpoint(host, "x"); err == nil && (!strings.HasPrefix(at.Socket, "/") || strings.Contains(at.Socket, "/../")) {
				t.Errorf("%q became %q", host, at.Socket)
			}
		}
	})
}
