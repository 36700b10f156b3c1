package dial

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSweepPrivateDirs(t *testing.T) {
	t.Parallel()
	base, err := os.MkdirTemp("/tmp", "sweep") // short: a socket's path has a hundred bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	old := time.Now().Add(-2 * staleAfter)
	make := func(name string, mode os.FileMode, file string, when time.Time) string {
		dir := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Join(dir, "plugin-dir1"), 0o700); err != nil {
			t.Fatal(err)
		}
		switch file {
		case "":
		case "socket":
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "plugin-dir1", "plugin1"), Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			l.SetUnlinkOnClose(false)
			l.Close()
		default:
			if err := os.WriteFile(filepath.Join(dir, "plugin-dir1", file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, when, when); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	gone := []string{make("sbxhost-1", 0o700, "socket", old), make("sbxhost-2", 0o700, "", old)}
	debugged := make("sbxhost-7", 0o700, "", old)
	if err := errors.Join(os.WriteFile(debugged+"/socket", nil, 0o600), os.Chtimes(debugged, old, old)); err != nil {
		t.Fatal(err)
	}
	stays := []string{
		debugged, // an engine that was started with -debug
		make("sbxhost-3", 0o700, "socket", time.Now()), // a host that is just starting an engine
		make("sbxhost-4", 0o755, "", old),              // not made by a host
		make("sbxhost-5", 0o700, "notes", old),         // holds what no host puts there
		make("other-1", 0o700, "socket", old),
	}
	sweepPrivateDirs([]string{base, filepath.Join(base, "missing")})
	for _, dir := range gone {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is still there", filepath.Base(dir))
		}
	}
	for _, dir := range stays {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("%s is gone", filepath.Base(dir))
		}
	}
}

// Who gives an engine up before its process is there does not wait for one that
// hangs.
func TestKilledBeforeItStarts(t *testing.T) {
	t.Parallel()
	r := newRunner(&exec.Cmd{Path: "/bin/sleep", Args: []string{"sleep", "600"}, SysProcAttr: engineSysProcAttr()})
	if err := r.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer r.stderr.Close()
	select {
	case <-r.exited:
	case <-time.After(time.Minute):
		t.Error("it runs")
		r.cmd.Process.Kill()
	}
}

// An engine that does not start says why, and one that says nothing is not waited
// for longer than the caller wants.
func TestLaunchFails(t *testing.T) {
	t.Parallel()
	_, err := Launch(t.Context(), exec.Command("/bin/sh", "-c", "echo no such library >&2; exit 3"), LaunchOptions{})
	if e, ok := errors.AsType[*LaunchError](err); !ok || e.Log != "no such library" || !strings.Contains(err.Error(), "exit status 3; it logged: no such library") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	const patience = 10 * time.Minute
	if _, err := Launch(ctx, exec.Command("/bin/sleep", "1000"), LaunchOptions{StartTimeout: patience}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if took := time.Since(begun); took > patience/2 {
		t.Errorf("it took %v", took)
	}
}

// What an engine block passes on sets the number of processors, and nothing by
// which host and engine know each other.
func TestEngineBlockEnvironment(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ env, want []string }{
		"nothing": {nil, []string{"GOMAXPROCS=1", "SBXHOST_CHANNEL=3"}},
		"all":     {[]string{"GOMAXPROCS=4", "SBXHOST_CHANNEL=77", "OWN=x"}, []string{"GOMAXPROCS=4", "OWN=x", "SBXHOST_CHANNEL=3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd := exec.Command("/bin/sh", "-c", "/usr/bin/env >'"+dir+"/env'")
			cmd.Env = tt.env
			if _, err := Launch(t.Context(), cmd, LaunchOptions{StartTimeout: time.Minute}); err == nil {
				t.Fatal("it is an engine")
			}
			text, err := os.ReadFile(dir + "/env")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.Lines(string(text)) {
				if key, _, _ := strings.Cut(line, "="); key == "GOMAXPROCS" || key == "SBXHOST_CHANNEL" || key == "OWN" {
					got = append(got, strings.TrimSpace(line))
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
