package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/plugins/bwrap"
	"github.com/sbxhost/sbxhost/plugins/noop"
)

var builtins host.Builtins

func TestMain(m *testing.M) {
	builtins = host.ServeBuiltin(bwrap.New(), noop.New())
	if os.Getenv("STEPS_AS_A_PROGRAM") != "" {
		os.Args = append([]string{"steps"}, os.Args[1:]...)
		main()
	}
	os.Exit(m.Run())
}

// file writes steps into a project of its own.
func file(t *testing.T, text string) string {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		if strings.Contains(os.Getenv("SBXHOST_REQUIRE"), "bwrap") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	name := filepath.Join(t.TempDir(), "steps.hcl")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

const sandboxes = `
sandbox "offline" { engine = "bwrap" }
sandbox "here" {
  engine  = "noop"
  network = true
}
`

func TestSteps(t *testing.T) {
	t.Parallel()
	sample, err := os.ReadFile("steps.hcl")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text   string
		status       int
		want, absent []string
	}{
		{"sample", string(sample), 0, []string{"look | steps.hcl\n", "count | 3\n", "tell | both are done\n", "count: succeeded after ", ", in bwrap\n", ", in noop\n"}, nil},
		{
			"a step that fails", sandboxes + `
step "bad" {
  sandbox = "offline"
  command = ["sh", "-c", "printf partial >&2; exit 3"]
}
step "after" {
  sandbox = "here"
  command = ["touch", "made"]
  needs   = ["bad"]
}
step "other" {
  sandbox = "here"
  command = ["echo", "fine"]
}`, 1,
			[]string{"bad | partial\n", "bad: failed: exit status 3", "after: left out", "other | fine\n"}, []string{"after: begins"},
		},
		{
			"not to be run", sandboxes + `
step "gone" {
  sandbox = "offline"
  command = ["no-such-program"]
}`, 1, []string{"gone: could not be run: "}, nil,
		},
		{
			"nonsense", `
sandbox "offline" {
  engine  = "bwarp"
  netwrok = true
}
step "a" {
  sandbox = "ofline"
  command = []
  needs   = ["b"]
}
step "a" {
  sandbox = "offline"
  command = { a = 1 }
}`, 2, []string{`Did you mean "bwrap"?`, `Did you mean "network"?`, `no sandbox "ofline"`, `no step "b" before`, "Duplicate step", "command takes a list of string"}, nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name := file(t, c.text)
			var out bytes.Buffer
			c2 := &console{out: &out}
			status := run(context.Background(), builtins, []string{"-file", name}, &locked{c2}, &locked{c2})
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in\n%s", want, out.String())
				}
			}
			for _, absent := range c.absent {
				if strings.Contains(out.String(), absent) {
					t.Errorf("%q in\n%s", absent, out.String())
				}
			}
			if status != c.status {
				t.Errorf("status %d, want %d\n%s", status, c.status, out.String())
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), "made")); err == nil {
				t.Error("a step ran whose need had failed")
			}
		})
	}
}

// locked makes one buffer of both streams.
type locked struct{ c *console }

func (l *locked) Write(p []byte) (int, error) { return l.c.out.Write(p) }

// TestInterrupt shows that Ctrl-C reaches the steps, which may act on it.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	name := file(t, sandboxes+`
step "long" {
  sandbox = "offline"
  command = ["sh", "-c", "trap 'echo cleaned up; exit 5' TERM; echo ready; while :; do sleep 1; done"]
}
step "after" {
  sandbox = "here"
  command = ["touch", "made"]
  needs   = ["long"]
}`)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-file", name)
	cmd.Env = append(os.Environ(), "STEPS_AS_A_PROGRAM=1")
	var out syncBuffer
	out.seen = make(chan struct{})
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-out.seen:
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("the step is not ready:\n%s", out.String())
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if status := cmd.ProcessState.ExitCode(); status != 130 || !strings.Contains(out.String(), "long | cleaned up\n") || !strings.Contains(out.String(), "interrupted") {
		t.Errorf("status %d\n%s", status, out.String())
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(name), "made")); err == nil {
		t.Error("a step began after the interrupt")
	}
}

// syncBuffer tells when the step is ready. os/exec writes to it from one
// goroutine, as both streams are the same.
type syncBuffer struct {
	text strings.Builder
	seen chan struct{}
	told bool
}

func (b *syncBuffer) String() string { return b.text.String() }

func (b *syncBuffer) Write(p []byte) (int, error) {
	n, err := b.text.Write(p)
	if !b.told && strings.Contains(b.String(), "long | ready\n") {
		b.told = true
		close(b.seen)
	}
	return n, err
}
