package sandboxinit

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// connected is an init that was started by its command line alone.
type connected struct {
	t    *testing.T
	line *net.UnixConn
	cmd  *exec.Cmd
	diag strings.Builder
}

// bwrap is a launcher that makes a pid namespace.
var bwrap = []string{
	"bwrap", "--unshare-all", "--as-pid-1", "--die-with-parent", "--cap-drop", "ALL",
	"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--chdir", "/",
}

// requireBwrap skips where bwrap is missing or of no use, unless it must be there.
func requireBwrap(t *testing.T) {
	t.Helper()
	out, err := exec.Command(bwrap[0], append(bwrap[1:], "true")...).CombinedOutput()
	if err == nil {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "bwrap") {
		t.Fatalf("bwrap is required: %v: %s", err, out)
	}
	t.Skipf("no bwrap here: %v: %s", err, out)
}

// connectFrom starts the lean init by the launcher, if there is one, with a socket that it is
// to find, and meets it there.
func connectFrom(t *testing.T, launcher []string) *connected {
	t.Helper()
	if launcher != nil {
		requireBwrap(t)
	}
	dir, err := os.MkdirTemp("", "connect-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	bin := bwrapLean.binary(t).Path
	words := slices.Clone(launcher)
	if launcher != nil { // whose /tmp is another
		words = append(words, "--ro-bind", filepath.Dir(bin), filepath.Dir(bin), "--ro-bind", dir, dir)
	}
	words = slices.Concat(words, []string{bin}, ConnectArgv(socket))
	f := &connected{t: t, cmd: exec.Command(words[0], words[1:]...)}
	f.cmd.Env = []string{"LEAKED=yes", "PATH=/usr/bin:/bin"}
	f.cmd.Stderr = &f.diag
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.line.Close()
		if f.cmd.Wait(); t.Failed() {
			t.Logf("init: %s", f.diag.String())
		}
	})
	if f.line, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	l.Close()
	return f
}

// run hands one command over and gives its Conn and output.
func (f *connected) run(cmd Command) (*Conn, *os.File) {
	f.t.Helper()
	control, err := f.line.File()
	if err != nil {
		f.t.Fatal(err)
	}
	f.line.Close() // or its end would not be seen
	null, err := os.Open(os.DevNull)
	if err != nil {
		f.t.Fatal(err)
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { r.Close() })
	conn := NewConn(control)
	f.t.Cleanup(func() { conn.Close() })
	err = conn.Complete([3]*os.File{null, w, w}, nil)
	w.Close()
	if err = errors.Join(err, conn.Start(f.t.Context(), cmd)); err != nil {
		f.t.Fatal(err)
	}
	return conn, r
}

func everything(t *testing.T, r io.Reader) string {
	t.Helper()
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestConnect(t *testing.T) {
	t.Parallel()
	for name, launcher := range map[string][]string{"direct": nil, "bwrap": bwrap} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := connectFrom(t, launcher)
			conn, out := f.run(Command{Args: []string{"/bin/sh", "-c", "env; ls /proc/self/fd | wc -l; exit 3"}, Env: []string{"A=1", "PATH=/usr/bin:/bin"}})
			status, err := conn.Wait()
			if err != nil || status.Code != 3 {
				t.Errorf("got %+v, %v", status, err)
			}
			// 0, 1, 2 and the directory itself.
			if got := everything(t, out); !strings.Contains(got, "A=1\n") || strings.Contains(got, "LEAKED") || !strings.HasSuffix(got, "\n4\n") {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(bwrapLean.binary(t).Path, ConnectArgv("/nosuch/socket")...)
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != Unreachable {
		t.Errorf("got %v", err)
	}
}
