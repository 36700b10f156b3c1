package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/plugins/native"
	"github.com/sbxhost/sbxhost/plugins/noop"
)

var builtins host.Builtins

func TestMain(m *testing.M) {
	builtins = host.ServeBuiltin(native.New(), noop.New())
	if os.Getenv("STEPS_AS_A_PROGRAM") != "" {
		grace = 5 * time.Minute // longer than a test waits
		os.Args = append([]string{"steps"}, os.Args[1:]...)
		main()
	}
	os.Exit(m.Run())
}

// file writes steps into a project of its own.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "steps.hcl")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

const sandboxes = `
sandbox "offline" { engine = "native" }
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
		{"sample", string(sample), 0, []string{"look | steps.hcl\n", "count | 3\n", "tell | both are done\n", "count: succeeded after ", ", in native\n", ", in noop\n"}, nil},
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
			"a bind that is not there", `
sandbox "offline" {
  engine     = "native"
  bind_paths = ["/etc/hostname", "no-such-dir"]
}
step "a" {
  sandbox = "offline"
  command = ["true"]
}`, 2, []string{"on ", "steps.hcl line 4,", `4:   bind_paths = ["/etc/hostname", "no-such-dir"]`, "bind_paths[1]:"}, []string{"a: begins"},
		},
		{"nothing", sandboxes, 2, []string{"nothing to run"}, nil},
		{
			"output that would pass for another's", sandboxes + `
step "liar" {
  sandbox = "offline"
  command = ["printf", "a\\rother: succeeded\\033[1A\\nb\\r\\nc\\td\\000\\n"]
}
step "long" {
  sandbox = "offline"
  command = ["sh", "-c", "head -c 200000 /dev/zero | tr '\\000' x"]
}`, 0, []string{`liar | a\x0dother: succeeded\x1b[1A` + "\nliar | b\nliar | c\td\\x00\n", "long | xxx"}, []string{"\r", strings.Repeat("x", 150000)},
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
}
step "null" {
  sandbox = "offline"
  command = ["a", null]
  bogus   = 1
}
sandbox "offline" { engine = "native" }`, 2, []string{`Did you mean "bwrap"?`, `Did you mean "network"?`, `no sandbox "ofline"`, `no step "b" before`, "Duplicate step", "command takes a list of string", "line 18", `"bogus"`, "Duplicate sandbox"}, nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name := file(t, c.text)
			var out bytes.Buffer
			c2 := &console{out: &out}
			status := run(context.Background(), context.Background(), builtins, []string{"-file", name}, &locked{c2}, &locked{c2})
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

// TestInterrupt shows that Ctrl-C reaches the steps, which may act on it, and that
// a second one does not wait for them. Nothing is left.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trap string
		want []string
	}{
		"once":  {"echo cleaned up; exit 5", []string{"long | cleaned up\n", "long: failed: exit status 5"}},
		"twice": {"echo not now", []string{"long | not now\n", "long: failed: signal: killed", "here: failed: signal: killed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			name := file(t, sandboxes+`
step "long" {
  sandbox = "offline"
  command = ["sh", "-c", "trap '`+c.trap+`' TERM; echo ready; while :; do sleep 0.1; done", project]
}
step "here" {
  sandbox = "here"
  command = ["sh", "-c", "trap '`+c.trap+`' TERM; echo ready; while :; do sleep 0.1; done", project]
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
			out := &syncBuffer{await: [][]string{{"long | ready\n", "here | ready\n"}, {"long | not now\n", "here | not now\n"}}, seen: make(chan struct{}, 2)}
			cmd.Stdout, cmd.Stderr = out, out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			interrupt := func() {
				select {
				case <-out.seen:
				case <-time.After(time.Minute):
					_ = cmd.Process.Kill()
					t.Fatalf("the steps do not say what they should; %v", <-ended)
				}
				if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
			}
			go func() { ended <- cmd.Wait() }()
			interrupt()
			if strings.Contains(c.trap, "not now") {
				interrupt()
			}
			select {
			case <-ended:
			case <-time.After(time.Minute):
				_ = cmd.Process.Kill()
				t.Fatalf("it waits; %v", <-ended)
			}
			for _, want := range append(c.want, "interrupted") {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in\n%s", want, out.String())
				}
			}
			if status := cmd.ProcessState.ExitCode(); status != 130 {
				t.Errorf("status %d\n%s", status, out.String())
			}
			// No step began after it, nothing holds the place of anything, and no
			// process works there.
			entries, err := os.ReadDir(filepath.Dir(name))
			if err != nil || len(entries) != 1 {
				t.Errorf("left are %v, %v", entries, err)
			}
			processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
			if err != nil || len(processes) == 0 {
				t.Fatalf("no processes: %v", err)
			}
			for _, p := range processes {
				works := func() bool {
					line, err := os.ReadFile(p)
					return err == nil && bytes.Contains(line, []byte(filepath.Dir(name)))
				}
				// What was killed takes a moment to go.
				for deadline := time.Now().Add(time.Minute); works(); <-time.After(10 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("%s runs still", p)
					}
				}
			}
		})
	}
}

// syncBuffer tells when the steps have said what is awaited, one list after the
// other. os/exec writes to it from one goroutine, as both streams are the same.
type syncBuffer struct {
	text  strings.Builder
	await [][]string
	seen  chan struct{}
}

func (b *syncBuffer) String() string { return b.text.String() }

func (b *syncBuffer) Write(p []byte) (int, error) {
	n, err := b.text.Write(p)
	for len(b.await) > 0 && !slices.ContainsFunc(b.await[0], func(s string) bool { return !strings.Contains(b.String(), s) }) {
		b.await = b.await[1:]
		b.seen <- struct{}{}
	}
	return n, err
}
