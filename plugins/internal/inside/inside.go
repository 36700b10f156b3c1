// Package inside runs commands in sandboxes, for the tests of engines: one command in each sandbox,
// to its end. An error ends the test.
package inside

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// Env is a plain environment.
var Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"}

// Outcome is all that a caller learns about a command.
type Outcome struct {
	shared.Result
	Stdout, Stderr string
	Events         []shared.Event
}

// Run runs one command to its end.
func Run(t testing.TB, e shared.Engine, spec shared.Spec, cmd shared.Command) Outcome {
	t.Helper()
	out, err := TryRun(t, e, spec, cmd)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return out
}

// TryRun runs one command, and returns the engine's error.
func TryRun(t testing.TB, e shared.Engine, spec shared.Spec, cmd shared.Command) (out Outcome, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	sandbox, err := e.Open(ctx, spec)
	if err != nil {
		return out, err
	}
	defer sandbox.Close(context.WithoutCancel(ctx))
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	if cmd.Env == nil {
		cmd.Env = Env
	}
	outR, outW := Pipe(t)
	errR, errW := Pipe(t)
	process, err := sandbox.Start(ctx, cmd, shared.Stdio{Stdout: outW, Stderr: errW})
	outW.Close()
	errW.Close()
	if err != nil {
		return out, err
	}
	stderr := make(chan string)
	go func() {
		b, _ := io.ReadAll(errR)
		stderr <- string(b)
	}()
	b, _ := io.ReadAll(outR)
	out.Stdout, out.Stderr = string(b), <-stderr
	out.Result, err = process.Wait(ctx)
	for ev := range process.Events() {
		out.Events = append(out.Events, ev)
	}
	return out, err
}

// Pipe returns a pair that is closed at the end of the test.
func Pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// Sh runs shell text and returns its output; it must succeed.
func Sh(t testing.TB, e shared.Engine, spec shared.Spec, text string) string {
	t.Helper()
	out := Run(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", text}})
	if !out.Status.Success() {
		t.Fatalf("%s\n%v\nstdout: %s\nstderr: %s", text, out.Status, out.Stdout, out.Stderr)
	}
	return out.Stdout
}

// Expect runs shell text with a known output.
func Expect(t testing.TB, e shared.Engine, spec shared.Spec, text, want string) {
	t.Helper()
	if got := strings.TrimSpace(Sh(t, e, spec, text)); got != want {
		t.Errorf("%s\n got: %q\nwant: %q", text, got, want)
	}
}

// Workspace is a directory that belongs to the tests' user.
func Workspace(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// BindRW shows a directory, writable.
func BindRW(dir string) shared.Entry {
	return shared.Entry{Source: dir, Path: dir, Access: shared.ReadWrite, Why: "workspace"}
}

// Write writes a file, and makes its directory.
func Write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
