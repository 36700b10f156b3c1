package bwrap

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/sbxhost/sbxhost/internal/engine/mountplan"
	"github.com/sbxhost/sbxhost/plugins/internal/inside"
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

// BenchmarkTrue is the shortest command in one sandbox: plain, in a session, with two
// hundred masks.
func BenchmarkTrue(b *testing.B) {
	for _, tt := range []struct {
		name    string
		session bool
		masks   int
	}{{"alone", false, 0}, {"alone/masks=200", false, 200}, {"session", true, 0}} {
		b.Run(tt.name, func(b *testing.B) {
			ws := b.TempDir()
			spec := shared.Spec{Table: []shared.Entry{inside.BindRW(ws)}}
			if tt.session {
				spec.Home, spec.Session.Dir = "/home/u", b.TempDir()
				os.Chmod(spec.Session.Dir, 0o700)
			}
			cmd := shared.Command{Args: []string{"/bin/true"}, Dir: "/", Env: inside.Env}
			for i := range tt.masks {
				path := fmt.Sprintf("%s/%d/.env", ws, i%20)
				os.MkdirAll(filepath.Dir(path), 0o755)
				path += strconv.Itoa(i)
				os.WriteFile(path, nil, 0o644)
				spec.Table = append(spec.Table, hide(path)...)
			}
			e := New()
			sandbox, err := e.Open(b.Context(), spec)
			if err != nil {
				b.Skip(err)
			}
			defer sandbox.Close(b.Context())
			for b.Loop() {
				p, err := sandbox.Start(b.Context(), cmd, shared.Stdio{})
				if err != nil {
					b.Skip(err)
				}
				if r, err := p.Wait(b.Context()); err != nil || !r.Status.Success() {
					b.Fatal(r, err)
				}
			}
		})
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
	f := mountplan.Look()
	spec := &shared.Spec{Table: []shared.Entry{inside.BindRW(b.TempDir())}}
	for b.Loop() {
		ops, err := mountplan.Plan(f, &mountplan.Support{}, spec)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := args(0, ops, 4); err != nil {
			b.Fatal(err)
		}
	}
}
