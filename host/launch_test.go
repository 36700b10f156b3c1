package host

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
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
	inUse := make("sbxhost-6", 0o700, "", old) // by a host whose engine takes its time
	lock, err := os.Open(inUse)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	line := make("sbxhost-7", 0o700, "", old) // an engine's, for a container
	if err := errors.Join(os.Mkdir(line+"/line", 0o700), os.Chtimes(line, old, old)); err != nil {
		t.Fatal(err)
	}
	stays := []string{
		inUse, line,
		make("sbxhost-3", 0o700, "socket", time.Now()), // a host that is just starting an engine
		make("sbxhost-4", 0o755, "", old),              // not made by a host
		make("sbxhost-5", 0o700, "notes", old),         // holds what no host puts there
		make("other-1", 0o700, "socket", old),
	}
	sweepPrivateDirs([]string{base, base, filepath.Join(base, "missing")})
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
	other, channel, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	defer channel.Close()
	r := &engineRunner{spec: launchSpec{path: "/bin/sleep", args: []string{"600"}}, channel: channel, log: &tail{},
		exited: make(chan struct{}), drained: make(chan struct{})}
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
			spec := launchSpec{name: "e", path: "/bin/sh", args: []string{"-c", "/usr/bin/env >'" + dir + "/env'"}, env: tt.env}
			if _, err := launch(t.Context(), spec, time.Minute, hclog.NewNullLogger()); err == nil {
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
