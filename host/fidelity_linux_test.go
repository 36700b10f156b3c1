package host_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/plugins/noop"
	"github.com/sbxhost/sbxhost/shared"
)

// What os/exec promises and what host.Cmd makes of it, as a table: each row
// runs against os/exec itself and against host.Cmd by every path that there is
// to an engine, and says what comes of it. A row in which they differ says why.

// command is what exec.Cmd and host.Cmd have in common.
type command interface {
	Start() error
	Wait() error
	Run() error
	Output() ([]byte, error)
	CombinedOutput() ([]byte, error)
	StdinPipe() (io.WriteCloser, error)
	StdoutPipe() (io.ReadCloser, error)
	StderrPipe() (io.ReadCloser, error)
	Signal(os.Signal) error
	String() string
	fields() fields
}

// fields points to the fields that both have.
type fields struct {
	Stdin          *io.Reader
	Stdout, Stderr *io.Writer
	Cancel         *func() error
	WaitDelay      *time.Duration
	Dir            *string
}

type execCmd struct{ *exec.Cmd }

func (c execCmd) Signal(sig os.Signal) error {
	if c.Process == nil {
		return errors.New("exec: not started")
	}
	return c.Process.Signal(sig)
}

func (c execCmd) fields() fields {
	return fields{&c.Stdin, &c.Stdout, &c.Stderr, &c.Cancel, &c.WaitDelay, &c.Dir}
}

type hostCmd struct{ *host.Cmd }

func (c hostCmd) fields() fields {
	return fields{&c.Stdin, &c.Stdout, &c.Stderr, &c.Cancel, &c.WaitDelay, &c.Dir}
}

// world makes commands one way.
type world struct {
	t    *testing.T
	root string
	make func(ctx context.Context, argv ...string) command
	// patience is how long a row waits for what must not happen in this world,
	// or must.
	patience time.Duration
}

func (w *world) sh(script string) command {
	return w.make(w.t.Context(), "sh", "-c", script)
}

// outcome tells an error without the words in which it is told.
func outcome(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ProcessState.String()
	}
	if exit, ok := errors.AsType[*host.ExitError](err); ok {
		return exit.Error()
	}
	for _, known := range []struct {
		err  error
		text string
	}{
		{context.Canceled, "context canceled"},
		{exec.ErrWaitDelay, "ErrWaitDelay"},
		{exec.ErrNotFound, "not found"}, {fs.ErrNotExist, "not found"}, {fs.ErrPermission, "not executable"},
		{os.ErrProcessDone, "process done"},
		{os.ErrClosed, "closed"},
		{errTest, "the test's error"},
		{shared.ErrInvalidSpec, "refused"},
	} {
		if errors.Is(err, known.err) {
			return known.text
		}
	}
	if err == nil {
		return "ok"
	}
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), "host: "), "exec: ")
}

var errTest = errors.New("as the test wants it")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errTest }

// heldOpen reports whether somebody else still has the write end of a pipe;
// read is its other end, from which everything was read.
func heldOpen(w *world, read *os.File) bool {
	read.SetReadDeadline(time.Now().Add(w.patience))
	_, err := read.Read(make([]byte, 1))
	return err != io.EOF
}

// fidelity is one row.
type fidelity struct {
	name string
	do   func(*world) string // gives what came of it
	want string              // of os/exec, and of host.Cmd where the next are empty
	host string              // of host.Cmd
	bare string              // of host.Cmd with an engine that does not isolate; empty means host
	why  string              // they differ
}

const notPromised = "not promised"

func (f *fidelity) expected(isExec, bare bool) string {
	switch {
	case isExec || f.host == "":
		return f.want
	case bare && f.bare != "":
		return f.bare
	}
	return f.host
}

// TestFidelity is not parallel: it counts what each row leaves behind.
func TestFidelity(t *testing.T) {
	t.Setenv("SBXHOST_TEST_SECRET", "secret")
	t.Setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
	rows := slices.Concat(endRows(), misuseRows(), outputRows(), inputRows(), cancelRows())
	const short, long = 200 * time.Millisecond, time.Minute
	for _, path := range []struct {
		name       string
		engine     string // empty for os/exec
		bare       bool   // does not isolate
		needsBwrap bool
		injected   map[string]shared.Engine
	}{
		{name: "os/exec"},
		{name: "bwrap", engine: "bwrap", needsBwrap: true},
		{name: "noop", engine: "noop", bare: true},
		{name: "injected", engine: "noop", bare: true, injected: map[string]shared.Engine{"noop": noop.New()}},
	} {
		t.Run(path.name, func(t *testing.T) {
			if path.needsBwrap {
				requireBwrap(t)
			}
			isExec := path.engine == ""
			w := world{root: t.TempDir(), patience: long}
			// In an empty directory less is held, which the first row would change.
			if err := os.WriteFile(w.root+"/file", nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if isExec {
				w.patience = short
			}
			w.make = func(ctx context.Context, argv ...string) command {
				c := exec.CommandContext(ctx, argv[0], argv[1:]...)
				c.Dir = w.root
				return execCmd{c}
			}
			if !isExec {
				h := fidelityHost(t, w.root, path.engine, path.injected)
				w.make = func(ctx context.Context, argv ...string) command {
					return hostCmd{h.Command(ctx, "", argv...)}
				}
			}
			for _, row := range rows {
				want := row.expected(isExec, path.bare)
				if want == notPromised {
					continue
				}
				t.Run(row.name, func(t *testing.T) {
					w := w
					w.t = t
					if row.bare != "" && path.bare {
						w.patience = short // for what holds on
					}
					w.make(t.Context(), "true").Run() // starts the engine
					before := countOwn(t)
					if got := row.do(&w); got != want {
						t.Errorf("got %s, want %s", got, want)
					}
					before.expectNoMore(t)
				})
			}
		})
	}
	for _, row := range rows {
		if (row.host == "" || row.host == row.want) != (row.why == "") {
			t.Errorf("row %q: where os/exec and host.Cmd differ, and only there, it says why", row.name)
		}
	}
}

func fidelityHost(t testing.TB, root, engine string, inject map[string]shared.Engine) *host.Host {
	t.Helper()
	h, err := host.New(t.Context(), host.Options{
		Builtins: builtins, Inject: inject, Dir: root,
		Workspace: host.WorkspaceOptions{Root: root},
		Sandboxes: map[string]host.Definition{"default": {Engine: engine}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return h
}
