package cmdengine

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/shared"
)

// shellLauncher is an engine whose launcher is a shell script, with the init's words as
// its parameters and a directory as its name. It isolates nothing.
func shellLauncher(t *testing.T, script string, change func(*Config)) (sb *sandbox, dir string) {
	t.Helper()
	dir = t.TempDir()
	c := Config{
		Info: shared.Info{Name: "shell", Features: isolates},
		Init: true,
		Launch: func(*shared.Spec, *shared.Command) (*exec.Cmd, error) {
			return &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", script, dir}}, nil
		},
	}
	change(&c)
	return open(t, c, shared.Spec{}), dir
}

// A Start that is given up while the launcher makes a record leaves none, if the
// launcher may clear up; one that is killed leaves it.
func TestClearsUp(t *testing.T) {
	t.Parallel()
	const script = `: >"$0/record"; echo >"$0/begun"; read go <"$0/go"; "$@"; /bin/rm "$0/record"`
	for name, clears := range map[string]bool{"clears up": true, "killed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sb, dir := shellLauncher(t, script, func(c *Config) { c.ClearsUp = clears })
			begun, goOn := fifo(t, dir, "begun"), fifo(t, dir, "go")
			ctx, cancel := context.WithCancel(t.Context())
			started := make(chan error)
			go func() {
				_, err := sb.Start(ctx, sh("exit 0"), shared.Stdio{})
				started <- err
			}()
			if _, err := begun.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			cancel()
			if clears { // another one is killed where it waits
				if _, err := goOn.WriteString("\n"); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-started; !errors.Is(err, context.Canceled) {
				t.Errorf("Start gave %v", err)
			}
			if _, err := os.Stat(filepath.Join(dir, "record")); errors.Is(err, os.ErrNotExist) != clears {
				t.Errorf("the record: %v", err)
			}
		})
	}
	// Nor is it killed for the engine's death, which closes the init's line.
	if got := sysProcAttr(nil, nil, true).Pdeathsig; got != 0 {
		t.Errorf("a launcher that clears up dies by %v with the engine", got)
	}
	if got := sysProcAttr(nil, nil, false).Pdeathsig; got != unix.SIGKILL {
		t.Errorf("a launcher dies by %v with the engine", got)
	}
}

// A command that does not end is ended through the init, and its launcher clears up.
func TestClearsUpAfterKill(t *testing.T) {
	t.Parallel()
	sb, dir := shellLauncher(t, `: >"$0/record"; "$@"; /bin/rm "$0/record"`, func(c *Config) { c.ClearsUp = true })
	o := newOutput(t)
	p := start(t, sb, sh("echo started; exec sleep 1000"), o)
	o.line()
	if err := p.Signal(t.Context(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	result, err := p.Wait(t.Context())
	if err != nil || result.Status.Signal != unix.SIGKILL {
		t.Errorf("%+v, %v", result, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "record")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the record: %v", err)
	}
}

// The launcher's environment is the author's choice and nothing else; the command's is
// its own.
func TestLauncherEnvironment(t *testing.T) {
	t.Parallel()
	for _, environ := range [][]string{nil, {"LAUNCHERS=1"}} {
		sb, dir := shellLauncher(t, `/usr/bin/env >"$0/env"; exec "$@"`, func(c *Config) { c.Environ = environ })
		got, _ := run(t, sb, shared.Command{Args: []string{"/usr/bin/env"}, Env: []string{"COMMANDS=2"}, Dir: "/"})
		if got != "COMMANDS=2\n" {
			t.Errorf("the command has %q", got)
		}
		text, err := os.ReadFile(filepath.Join(dir, "env"))
		if err != nil {
			t.Fatal(err)
		}
		lines := slices.DeleteFunc(strings.Fields(string(text)), func(v string) bool {
			name, _, _ := strings.Cut(v, "=")
			return slices.Contains([]string{"PWD", "OLDPWD", "SHLVL", "_"}, name) // the shell's
		})
		if !slices.Equal(lines, slices.Clone(environ)) {
			t.Errorf("the launcher has %q, want %q", lines, environ)
		}
	}
}

func TestFilterIsLoaded(t *testing.T) {
	t.Parallel()
	allow := []byte{0x06, 0, 0, 0, 0, 0, 0xff, 0x7f} // return SECCOMP_RET_ALLOW
	sb, _ := shellLauncher(t, `exec "$@"`, func(c *Config) {
		c.Filter = func(*shared.Spec) ([]byte, error) { return allow, nil }
	})
	if got, _ := run(t, sb, sh("grep -E '^(Seccomp|NoNewPrivs):' /proc/self/status")); got != "NoNewPrivs:\t1\nSeccomp:\t2\n" {
		t.Errorf("got %q", got)
	}
	refusal := errors.New("no filter for this machine")
	c := config(inside)
	c.Filter = func(*shared.Spec) ([]byte, error) { return nil, refusal }
	if _, err := New(c).Open(t.Context(), shared.Spec{}); !errors.Is(err, refusal) {
		t.Errorf("Open gave %v", err)
	}
}

// Open is given no Spec that is refused without it.
func TestOpenIsLast(t *testing.T) {
	t.Parallel()
	c := config(direct)
	c.Open = func(context.Context, *shared.Spec) error {
		t.Error("Open was called")
		return nil
	}
	spec := specFor(direct)
	spec.Limits.PIDs = 3
	if _, err := New(c).Open(t.Context(), spec); !errors.Is(err, shared.ErrUnsupported) {
		t.Error(err)
	}
}

// A launcher that fails by no fault of the command's is started once more, and no
// second time.
func TestAgain(t *testing.T) {
	t.Parallel()
	const failing = `echo "no luck today" >&2; exit 1`
	for name, c := range map[string]struct {
		script, text string
		started      bool
	}{
		"once":         {`[ -e "$0/tried" ] && exec "$@"; : >"$0/tried"; ` + failing, "no luck", true},
		"always":       {failing, "no luck", false},
		"another word": {`[ -e "$0/tried" ] && exec "$@"; : >"$0/tried"; ` + failing, "no mount", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sb, _ := shellLauncher(t, c.script, func(config *Config) { config.Diagnose = Again("unheard of", c.text) })
			p, err := sb.Start(t.Context(), sh("exit 7"), shared.Stdio{})
			if !c.started {
				if !errors.Is(err, shared.ErrUnavailable) || errors.Is(err, ErrAgain) || !strings.Contains(err.Error(), "it said: no luck today") {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r, err := p.Wait(t.Context()); err != nil || r.Status.Code != 7 {
				t.Errorf("%v, %v", r.Status, err)
			}
		})
	}
}

// A launcher that is killed at birth can leave a child with the init's end of the socket,
// which says nothing and does not end: nobody waits for that.
func TestLauncherKilledAtBirth(t *testing.T) {
	t.Parallel()
	sb, dir := shellLauncher(t, `/bin/sleep 1000 </dev/null & echo $! >"$0/left"; kill -9 $$`, func(*Config) {})
	started := make(chan error, 1)
	go func() {
		_, err := sb.Start(t.Context(), sh("exit 0"), shared.Stdio{})
		started <- err
	}()
	select {
	case err := <-started:
		if !errors.Is(err, shared.ErrBroken) || !strings.Contains(err.Error(), "killed") {
			t.Errorf("got %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Start hangs")
	}
	left, err := os.ReadFile(filepath.Join(dir, "left"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(left)))
	if err != nil {
		t.Fatal(err)
	}
	unix.Kill(pid, unix.SIGKILL)
}

// A launcher can be pid 1 of a namespace itself. It is not taken for what another launcher,
// which was killed, has left.
func TestLauncherIsFirstProcess(t *testing.T) {
	t.Parallel()
	sb, dir := shellLauncher(t, `echo >"$0/begun"; read go <"$0/go"; exec "$@"`, func(c *Config) {
		launch := c.Launch
		c.Launch = func(spec *shared.Spec, cmd *shared.Command) (*exec.Cmd, error) {
			launcher, err := launch(spec, cmd)
			launcher.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID}
			return launcher, err
		}
	})
	begun, goOn := fifo(t, dir, "begun"), fifo(t, dir, "go")
	ended := make(chan error, 1)
	go func() {
		p, err := sb.Start(t.Context(), sh("exit 0"), shared.Stdio{})
		if err == nil {
			_, err = p.Wait(t.Context())
		}
		ended <- err
	}()
	if _, err := begun.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	killed, _ := shellLauncher(t, `kill -9 $$`, func(*Config) {})
	if _, err := killed.Start(t.Context(), sh("exit 0"), shared.Stdio{}); !errors.Is(err, shared.ErrBroken) {
		t.Errorf("got %v", err)
	}
	if _, err := goOn.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// fifo makes one in dir, and opens it for both ends.
func fifo(t *testing.T, dir, name string) *os.File {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
