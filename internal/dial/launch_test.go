package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/wire"
)

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
	defer r.Stderr().Close()
	select {
	case <-r.exited:
	case <-time.After(time.Minute):
		t.Error("it runs")
		r.cmd.Process.Kill()
	}
}

// After an engine's end, go-plugin would sync our standard error.
func TestEndSyncsNothing(t *testing.T) {
	t.Parallel()
	r := newRunner(&exec.Cmd{Path: "/bin/true", Args: []string{"true"}, SysProcAttr: engineSysProcAttr()})
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer r.Stderr().Close()
	ended, returned := make(chan struct{}), false
	go func() {
		defer close(ended)
		r.Wait(t.Context())
		returned = true
	}()
	if <-ended; returned {
		t.Error("go-plugin goes on")
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

// A host that is killed before it has connected leaves a directory. A later start removes that, and nothing else: not
// one of a host that starts, none of another kind, nothing behind a symlink that a command has made, and no project.
func TestLaunchSweeps(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	at := func(name string) string { return filepath.Join(base, wire.TempDirPrefix+name) }
	err := errors.Join(os.MkdirAll(at("1/plugin-dir1"), 0o700), os.WriteFile(at("1/plugin-dir1/plugin1"), nil, 0o600), os.MkdirAll(at("2/plugin-dir2"), 0o700),
		os.MkdirAll(at("3/line"), 0o700), os.MkdirAll(base+"/other/plugin-dir4", 0o700), os.Symlink("other", at("4")),
		os.MkdirAll(at("5/plugin-dir5"), 0o700), os.MkdirAll(at("5/.git"), 0o700), os.MkdirAll(at("6/plugin-dir6"), 0o700), os.WriteFile(at("6/plugin-dir6/plugin6"), []byte("text"), 0o600),
		os.Mkdir(at("7"), 0o700), os.WriteFile(base+"/other/plugin7", nil, 0o600), os.Symlink("../other", at("7/plugin-dir7")), unix.Lutimes(at("7/plugin-dir7"), make([]unix.Timeval, 2)))
	old := time.Now().Add(-2 * time.Hour)
	for _, dir := range []string{at("1/plugin-dir1"), at("3/line"), base + "/other/plugin-dir4", at("5/plugin-dir5"), at("6/plugin-dir6")} {
		err = errors.Join(err, os.Chtimes(dir, old, old))
	}
	want := []string{"other/plugin-dir4", "other/plugin7", "sbxhost-2/plugin-dir2", "sbxhost-3/line", "sbxhost-4/plugin-dir4", "sbxhost-4/plugin7", "sbxhost-5/.git", "sbxhost-6/plugin-dir6", "sbxhost-7/plugin-dir7"}
	if os.Geteuid() == 0 { // who can swap what is in another user's directory while root looks
		want = append(want, "sbxhost-8/plugin-dir8")
		err = errors.Join(err, os.MkdirAll(at("8/plugin-dir8"), 0o700), os.Chtimes(at("8/plugin-dir8"), old, old), os.Chown(at("8"), 12345, 12345))
	}
	if err != nil {
		t.Fatal(err)
	}
	if l, err := Launch(t.Context(), exec.Command("/bin/true"), LaunchOptions{SocketDirs: []string{base}}); err == nil {
		l.Kill()
		t.Fatal("it is an engine")
	}
	var got []string
	left, err := filepath.Glob(base + "/*/*")
	for _, p := range left {
		got = append(got, strings.TrimPrefix(p, base+"/"))
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("left %q, want %q, %v", got, want, err)
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

// A command that can write in the directory of the socket puts its own in that place: it gets no call.
func TestSocketOfAnotherProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan int, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			got <- -1
			return
		}
		conn.SetDeadline(time.Now().Add(5 * time.Second))
		n, _ := conn.Read(make([]byte, 100))
		got <- n
	}()
	line := fmt.Sprintf("echo '%d|%d|unix|%s|grpc|'; sleep 60", plugin.CoreProtocolVersion, wire.Handshake.ProtocolVersion, path)
	process, err := Launch(t.Context(), exec.Command("/bin/sh", "-c", line), LaunchOptions{StartTimeout: 3 * time.Second})
	if err == nil {
		_, err = process.Engine.Info(t.Context())
		process.Kill()
	}
	if n := <-got; err == nil || !strings.Contains(err.Error(), "another socket") || n != 0 {
		t.Errorf("it got %d bytes; %v", n, err)
	}
}
