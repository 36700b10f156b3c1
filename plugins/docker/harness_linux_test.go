package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/moby/moby/client"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/internal/testing/dockerd"
	"github.com/sbxhost/sbxhost/internal/testing/programs"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/daemon"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest"
)

// startedDocker is the tests' daemon, and a client of it.
type startedDocker struct {
	*dockerd.Daemon
	Client *client.Client
}

var testDaemon = sync.OnceValues(func() (startedDocker, error) {
	kind := dockerd.Docker
	if withRootless() {
		kind = dockerd.RootlessDocker
	}
	d, err := kind.Start(context.Background())
	if err != nil {
		return startedDocker{}, err
	}
	c, err := client.New(client.WithHost("unix://" + d.Socket))
	return startedDocker{d, c}, err
})

// initDir holds the real init, and the program that the conformance kit runs
// inside: the test binary may be linked dynamically, and is nothing to run in an
// image without a loader.
func initDir() (string, error) {
	return programs.Dir("cmd/sbxhost-init", "shared/enginetest/testdata/probe")
}

var startedDaemon atomic.Bool

func TestMain(m *testing.M) {
	enginetest.Hook()
	if host := os.Getenv(crashEnv); host != "" {
		crash(host) // returns never
	}
	if how := os.Getenv(userEnv); how != "" {
		asUser(how) // likewise
	}
	code := m.Run()
	if startedDaemon.Load() {
		if d, err := testDaemon(); err == nil {
			d.Stop()
		}
	}
	programs.Remove()
	os.Exit(code)
}

func required(part string) bool {
	return slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), part)
}

var startLock sync.Mutex

// daemonFor gives the tests' daemon. Where none can be started, the test is
// skipped, unless it must be there.
func daemonFor(t testing.TB) startedDocker {
	t.Helper()
	startLock.Lock()
	defer startLock.Unlock()
	d, err := testDaemon()
	if errors.Is(err, dockerd.ErrMissing) && !required(daemonPart()) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	startedDaemon.Store(true)
	return d
}

// newEngine is an engine of the tests' daemon, with a home of its own. It does not sweep: the daemon
// refuses to prune for two at once.
func newEngine(t testing.TB) *engine {
	t.Helper()
	d := daemonFor(t)
	home := t.TempDir()
	vars := map[string]string{"DOCKER_HOST": "unix://" + d.Socket, "HOME": home}
	s := daemon.HostSurroundings()
	s.Getenv = func(name string) string { return vars[name] }
	e := &engine{surroundings: s, locateInit: func() (sandboxinit.Binary, error) {
		dir, err := initDir()
		if err != nil {
			return sandboxinit.Binary{}, err
		}
		return sandboxinit.Binary{Path: filepath.Join(dir, "sbxhost-init")}, nil
	}}
	e.sweep.Do(func() {})
	return e
}

func rawOptions(t testing.TB, o map[string]any) json.RawMessage {
	t.Helper()
	if o["image"] == nil {
		o["image"] = dockerd.Image
		o["pull"] = "never"
	}
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

type opts = map[string]any

// open opens a sandbox that is closed with the test. Its options are those of
// the test image unless the Spec has some.
func open(t testing.TB, spec shared.Spec) shared.Sandbox {
	t.Helper()
	if spec.Options == nil {
		spec.Options = rawOptions(t, opts{})
	}
	sandbox, err := newEngine(t).Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sandbox.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return sandbox
}

// them is another user than the tests', as whom commands can run. With a rootless
// daemon there is none but who runs it, who is root inside.
func them() (u shared.User, inside string) {
	if withRootless() {
		return self(), "0:0"
	}
	return shared.User{UID: 4242, GID: 4243, Groups: []uint32{4244}}, "4242:4243"
}

type outcome struct {
	shared.Result
	stdout, stderr string
	events         []shared.Event
}

// sh runs a shell script to its end.
func sh(t testing.TB, s shared.Sandbox, script string) outcome {
	t.Helper()
	return runCommand(t, s, shared.Command{Args: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/bin"}, Dir: "/"}, "")
}

func runCommand(t testing.TB, s shared.Sandbox, cmd shared.Command, stdin string) outcome {
	t.Helper()
	var out outcome
	collect := func(to *string) (*os.File, chan struct{}) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			var b bytes.Buffer
			io.Copy(&b, r)
			r.Close()
			*to = b.String()
		}()
		return w, done
	}
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		io.WriteString(inWrite, stdin)
		inWrite.Close()
	}()
	stdout, outDone := collect(&out.stdout)
	stderr, errDone := collect(&out.stderr)
	p, err := s.Start(t.Context(), cmd, shared.Stdio{Stdin: inRead, Stdout: stdout, Stderr: stderr})
	inRead.Close()
	stdout.Close()
	stderr.Close()
	if err != nil {
		t.Fatal(err)
	}
	if out.Result, err = p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for e := range p.Events() {
		out.events = append(out.events, e)
	}
	<-outDone
	<-errDone
	return out
}

// containers lists those of the daemon that the label marks.
func containers(t testing.TB) []string {
	t.Helper()
	list, err := daemonFor(t).Client.ContainerList(context.Background(), client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", ownerLabel)})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range list.Items {
		ids = append(ids, c.ID)
	}
	return ids
}

// hideAll gives entries that hide what is at some paths.
func hideAll(paths ...string) []shared.Entry {
	table := make([]shared.Entry, len(paths))
	for i, p := range paths {
		table[i] = shared.Entry{Path: p, Access: shared.Hidden, Missing: shared.MissingIgnore, Why: "deny_paths[0]"}
	}
	return table
}
