//go:build linux

package cmdengine

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/shared"
)

// roleVariable makes the test binary something else than the tests.
const roleVariable = "CMDENGINE_TEST_ROLE"

func TestMain(m *testing.M) {
	sandboxinit.Hook()
	switch role, mode, _ := strings.Cut(os.Getenv(roleVariable), ":"); role {
	case "engine":
		os.Exit(engineRole(mode))
	case "limited":
		os.Exit(limitedRole())
	case "leaks":
		os.Exit(leakRole(mode))
	}
	os.Exit(m.Run())
}

const (
	direct = "direct"
	inside = "inside"

	bwrap = "/usr/bin/bwrap"
)

// No home: a login shell would say what it thinks of the profile there.
var stdEnv = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "HOME=/nonexistent"}

// config is an engine of either mode. With an init it is the plainest use of bwrap.
func config(mode string) Config {
	if mode == direct {
		return Config{
			Info: shared.Info{Name: "direct", Features: shared.Features{
				shared.FeatureUnconfined, shared.FeatureTTY, shared.FeatureUser,
			}},
			Launch: func(_ *shared.Spec, cmd *shared.Command) (*exec.Cmd, error) {
				return &exec.Cmd{Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir}, nil
			},
		}
	}
	return Config{
		Info: shared.Info{Name: "inside", Features: shared.Features{
			shared.FeatureNetworkNone, shared.FeatureFilesystemMinimal, shared.FeatureTTY, shared.FeatureUser,
			shared.FeatureNested, shared.FeatureHomePrivate, shared.FeatureTempPrivate, shared.FeatureProcessesHidden, shared.FeatureKernelFiltered, shared.FeatureMetadata,
		}},
		Init: true,
		Launch: func(spec *shared.Spec, _ *shared.Command) (*exec.Cmd, error) {
			args := []string{
				"bwrap", "--unshare-all", "--as-pid-1", "--die-with-parent",
				"--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev",
			}
			for _, m := range spec.Table {
				args = append(args, "--bind", m.Source, m.Path)
			}
			return &exec.Cmd{Path: bwrap, Args: append(args, "--")}, nil
		},
	}
}

func specFor(mode string, writable ...string) shared.Spec {
	spec := shared.Spec{Unconfined: mode == direct}
	for _, dir := range writable {
		spec.Table = append(spec.Table, shared.Entry{Source: dir, Path: dir, Access: shared.ReadWrite})
	}
	return spec
}

// eachMode runs a test with and without an init.
func eachMode(t *testing.T, test func(t *testing.T, mode string)) {
	t.Parallel()
	for _, mode := range []string{direct, inside} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			needs(t, mode)
			test(t, mode)
		})
	}
}

func needs(t *testing.T, mode string) {
	t.Helper()
	if mode != inside {
		return
	}
	if _, err := os.Stat(bwrap); err != nil {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "bwrap") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

func open(t *testing.T, c Config, spec shared.Spec) *sandbox {
	t.Helper()
	sb, err := New(c).Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return sb.(*sandbox)
}

func sh(script string, args ...string) shared.Command {
	return shared.Command{
		Args: append([]string{"sh", "-c", script, "sh"}, args...), Env: stdEnv, Dir: "/",
	}
}

// output is what a command writes. Its end is seen only once every process that
// could write to it is gone.
type output struct {
	t *testing.T
	r *os.File
	w *os.File
	b *bufio.Reader
}

func newOutput(t *testing.T) *output {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return &output{t: t, r: r, w: w, b: bufio.NewReader(r)}
}

// patience is how long anything may take.
const patience = time.Minute

// line waits for one line.
func (o *output) line() string {
	o.t.Helper()
	o.r.SetReadDeadline(time.Now().Add(patience))
	s, err := o.b.ReadString('\n')
	if err != nil {
		o.t.Fatalf("waiting for the command's line: %v (got %q)", err, s)
	}
	return strings.TrimSuffix(s, "\n")
}

// rest is what comes until the end, which must be there already or come at once:
// what lived on would do so for longer than that is waited for.
func (o *output) rest() string {
	o.t.Helper()
	o.w.Close()
	o.r.SetReadDeadline(time.Now().Add(patience))
	all, err := io.ReadAll(o.b)
	if err != nil {
		o.t.Errorf("somebody still holds the command's output: %v", err)
	}
	return string(all)
}

// start starts cmd with its stdout and stderr in o.
func start(t *testing.T, sb *sandbox, cmd shared.Command, o *output) *process {
	t.Helper()
	p, err := sb.Start(t.Context(), cmd, shared.Stdio{Stdout: o.w, Stderr: o.w})
	if err != nil {
		t.Fatal(err)
	}
	o.w.Close()
	return p.(*process)
}

func run(t *testing.T, sb *sandbox, cmd shared.Command) (string, shared.Result) {
	t.Helper()
	o := newOutput(t)
	p := start(t, sb, cmd, o)
	o.r.SetReadDeadline(time.Now().Add(patience))
	text := make(chan string, 1)
	go func() { all, _ := io.ReadAll(o.b); text <- string(all) }()
	result, err := p.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return <-text, result
}

func wantError(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error %v, want a %v", err, kind)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
}

// isolates are the features of an engine that isolates and does nothing else.
var isolates = shared.Features{shared.FeatureNetworkNone, shared.FeatureFilesystemMinimal, shared.FeatureNested,
	shared.FeatureHomePrivate, shared.FeatureTempPrivate, shared.FeatureProcessesHidden, shared.FeatureKernelFiltered, shared.FeatureMetadata}
