package docker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/sbxhost/sbxhost/internal/testing/dockerd"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/image"
	"github.com/sbxhost/sbxhost/shared"
)

const composeFile = `
version: "2.4"
services:
  app:
    image: ` + dockerd.Image + `
    command: ["/bin/false"]
    depends_on: [web]
  web:
    image: ` + dockerd.Image + `
    command: ["/bin/sh", "-c", "while :; do echo served | nc -l -p 80; done"]
  unrelated:
    image: ` + dockerd.Image + `
    command: ["/bin/sleep", "1000"]
`

func TestCompose(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	b := &image.Preparation{Getenv: e.surroundings.Getenv, Spec: &shared.Spec{}}
	if _, err := b.FindCompose(); err != nil {
		if required("docker-compose") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	ws, outside := dir(t), dir(t)
	for _, d := range []string{ws, outside} {
		if err := os.WriteFile(filepath.Join(d, "compose.yml"), []byte(composeFile), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	spec := shared.Spec{
		Network: shared.Network{Mode: shared.NetworkHost},
		Options: rawOptions(t, opts{"compose": filepath.Join(outside, "compose.yml"), "service": "app"}),
		Table:   []shared.Entry{{Source: ws, Path: ws, Access: shared.ReadWrite, Why: "workspace"}},
	}
	s, _, err := opened(t, e, spec)
	if err != nil {
		t.Fatal(err)
	}
	if withPodman() && !slices.ContainsFunc(sh(t, s, "true").events, func(e shared.Event) bool { return strings.Contains(e.Message, "dnsname") }) {
		t.Error("nobody says what Podman needs for services to be reached by name")
	}
	if withPodman() && !required("dnsname") {
		t.Log("names are not tried: SBXHOST_REQUIRE does not list dnsname")
	} else if out := sh(t, s, "i=0; while [ $i -lt 100 ]; do nc web 80 </dev/null && break; i=$((i+1)); sleep 0.1; done"); out.stdout != "served\n" {
		t.Errorf("the service it depends on: %+v", out)
	}
	project := s.(*box).preparation.Compose.Project
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	left, err := daemonFor(t).Client.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", image.ProjectLabel+"="+project)})
	if err != nil || len(left.Items) != 0 {
		t.Errorf("left of the project: %v, %v", left.Items, err)
	}

	for name, tt := range map[string]struct {
		options opts
		kind    error
		says    string
	}{
		"in the workspace": {opts{"compose": "compose.yml", "service": "app"}, shared.ErrDenied, "read_only"},
		"no such service":  {opts{"compose": filepath.Join(outside, "compose.yml"), "service": "nosuch"}, shared.ErrUnavailable, "nosuch"},
		"no such file":     {opts{"compose": "nosuch.yml", "service": "app"}, shared.ErrInvalidSpec, "nosuch.yml"},
	} {
		bad := spec
		bad.Options = rawOptions(t, tt.options)
		if _, _, err := opened(t, e, bad); !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
