package test

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/testing/dockerd"
)

// BenchmarkDocker has a Host with an engine of its own, and all protections that
// are default, take turns with Docker's own command line on the same daemon, which
// protects nothing:
//
//	go test ./test -run '^$' -bench Docker -benchtime 30x
//
// A container is to cost at most 1.15 times docker run.
func BenchmarkDocker(b *testing.B) {
	docker, err := exec.LookPath("docker")
	if err != nil {
		b.Skip(err)
	}
	_, layout, d := dockerLayout(b)
	ws := b.TempDir()
	h, err := host.New(b.Context(), host.Options{
		EngineDir: layout,
		Environ:   []string{"PATH=/usr/bin:/bin", "HOME=" + b.TempDir(), "DOCKER_HOST=unix://" + d.Socket},
		Workspace: host.WorkspaceOptions{Root: ws},
		Sandboxes: map[string]host.Definition{"fresh": {Engine: "docker", Env: map[string]string{"PATH": "/bin"}, Config: []byte(`{"image":"` + dockerd.Image + `","pull":"never"}`)}},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	peer := func(words ...string) {
		cmd := exec.CommandContext(b.Context(), docker, words...)
		cmd.Env = []string{"DOCKER_HOST=unix://" + d.Socket, "HOME=" + b.TempDir()}
		out, err := cmd.CombinedOutput()
		if err != nil {
			b.Fatalf("%v: %v: %s", words, err, out)
		}
	}
	words := []string{"run", "--rm", "--network", "none", "-v", ws + ":" + ws, "-w", ws, dockerd.Image, "/bin/true"}
	ours := func() {
		if out, err := h.Command(b.Context(), "fresh", "/bin/true").CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	ours()
	var mine, theirs []time.Duration
	for b.Loop() {
		begun := time.Now()
		ours()
		between := time.Now()
		peer(words...)
		mine, theirs = append(mine, between.Sub(begun)), append(theirs, time.Since(between))
	}
	slices.Sort(mine)
	slices.Sort(theirs)
	half := len(mine) / 2
	b.ReportMetric(0, "ns/op") // of both together, which says nothing
	b.ReportMetric(float64(mine[half].Microseconds())/1000, "ms")
	b.ReportMetric(float64(theirs[half].Microseconds())/1000, "ms-docker")
	b.ReportMetric(float64(mine[half])/float64(theirs[half]), "ratio")
}
