package native

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/shared"
)

// env is a plain environment.
var env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"}

// outcome is all that a caller learns of a command.
type outcome struct {
	shared.Result
	stdout, stderr string
	events         []shared.Event
}

// run runs one command to its end.
func run(t *testing.T, e shared.Engine, spec shared.Spec, cmd shared.Command) outcome {
	t.Helper()
	out, err := tryRun(t, e, spec, cmd)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return out
}

func tryRun(t *testing.T, e shared.Engine, spec shared.Spec, cmd shared.Command) (out outcome, err error) {
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
		cmd.Env = env
	}
	outR, outW := pipe(t)
	errR, errW := pipe(t)
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
	out.stdout, out.stderr = string(b), <-stderr
	out.Result, err = process.Wait(ctx)
	for ev := range process.Events() {
		out.events = append(out.events, ev)
	}
	return out, err
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// sh runs shell text and returns what it wrote; it must succeed.
func sh(t *testing.T, e shared.Engine, spec shared.Spec, text string) string {
	t.Helper()
	out := run(t, e, spec, shared.Command{Args: []string{"/bin/sh", "-c", text}})
	if !out.Status.Success() {
		t.Fatalf("%s\n%v\nstdout: %s\nstderr: %s", text, out.Status, out.stdout, out.stderr)
	}
	return out.stdout
}

// expect runs shell text whose output is known.
func expect(t *testing.T, e shared.Engine, spec shared.Spec, text, want string) {
	t.Helper()
	if got := strings.TrimSpace(sh(t, e, spec, text)); got != want {
		t.Errorf("%s\n got: %q\nwant: %q", text, got, want)
	}
}

// workspace is a directory that whoever runs the tests owns.
func workspace(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func bindRW(dir string) shared.Entry {
	return shared.Entry{Source: dir, Path: dir, Access: shared.ReadWrite, Why: "workspace"}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sessionDir is a session's directory, the holder of which must end.
func sessionDir(t *testing.T) string {
	t.Helper()
	dir := workspace(t)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		locks, _ := filepath.Glob(filepath.Join(dir, "holder", "*", "lock"))
		for _, lock := range locks {
			if fd, err := unix.Open(lock, unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
				unix.Flock(fd, unix.LOCK_EX)
				unix.Close(fd)
			}
		}
		filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if d != nil && d.IsDir() {
				os.Chmod(p, 0o700)
			}
			return nil
		})
	})
	return dir
}

func sessionSpec(t *testing.T) shared.Spec {
	t.Helper()
	return shared.Spec{Session: shared.Session{ID: t.Name(), Dir: sessionDir(t)}}
}
