package bwrap

import (
	"os"
	"os/exec"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

// BenchmarkBare is the yardstick: bubblewrap alone.
func BenchmarkBare(b *testing.B) {
	for b.Loop() {
		cmd := exec.Command("/usr/bin/bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/", "/",
			"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/bin/true")
		if err := cmd.Run(); err != nil {
			b.Skip(err)
		}
	}
}

func BenchmarkTrue(b *testing.B) {
	e := New()
	sandbox, err := e.Open(b.Context(), shared.Spec{Mounts: []shared.Mount{bindRW(b.TempDir())}})
	if err != nil {
		b.Skip(err)
	}
	defer sandbox.Close(b.Context())
	for b.Loop() {
		p, err := sandbox.Start(b.Context(), shared.Command{Args: []string{"/bin/true"}, Dir: "/", Env: env}, shared.Stdio{})
		if err != nil {
			b.Skip(err)
		}
		if r, err := p.Wait(b.Context()); err != nil || !r.Status.Success() {
			b.Fatal(r, err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	e := New()
	for b.Loop() {
		s, err := e.Open(b.Context(), shared.Spec{})
		if err != nil {
			b.Skip(err)
		}
		s.Close(b.Context())
	}
}

func BenchmarkPlan(b *testing.B) {
	f := gather(hostTree{}, uint32(os.Getuid()), 1<<30)
	spec := &shared.Spec{Mounts: []shared.Mount{bindRW(b.TempDir())}}
	for b.Loop() {
		ops, err := plan(f, &held{}, spec, &shared.Command{})
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := args(0, ops, 4, false); err != nil {
			b.Fatal(err)
		}
	}
}
