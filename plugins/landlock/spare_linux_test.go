package landlock

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/plugins/internal/inside"
	"github.com/sbxhost/sbxhost/shared"
)

// bench is a sandbox with Prepare, in a workspace. Its tests are not parallel: inits are found
// by their parent, which is this process for all tests.
type bench struct {
	inside.Bench
	t *testing.T
}

// newBench opens one in which hidden, a file of the workspace, is hidden.
func newBench(t *testing.T, session shared.Session) *bench {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, Bench: inside.Bench{T: t, Dir: filepath.Join(dir, "ws"), Inits: func() []int { return proc.Children(os.Getpid()) }}}
	b.makeWorkspace("a secret")
	b.Sandbox, err = need(t).Open(t.Context(), shared.Spec{
		Sandbox: "bench", Session: session, Prepare: true, BestEffort: true, Home: "/home/u",
		Table: []shared.Entry{
			{Path: b.Dir, Source: b.Dir, Access: shared.ReadWrite, Why: "workspace"},
			{Path: b.path("hidden"), Access: shared.Hidden, Why: "deny_paths[0]"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Sandbox.Close(t.Context()) })
	return b
}

func (b *bench) path(name string) string { return filepath.Join(b.Dir, name) }

func (b *bench) makeWorkspace(hidden string) {
	b.t.Helper()
	if err := os.MkdirAll(b.path("src"), 0o755); err != nil {
		b.t.Fatal(err)
	}
	b.write("hidden", hidden)
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(b.path(name), []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// Each command has directories of its own, and what is hidden is.
func TestPrepared(t *testing.T) {
	b := newBench(t, shared.Session{})
	const look = `ls -A $HOME $TMPDIR; touch $HOME/left $TMPDIR/left src/made; cat hidden 2>&1; cat src/made; echo $TMPDIR`
	b.Run(look)
	for range 3 {
		out := b.RunPrepared(look)
		at := strings.LastIndexByte(out, '\n')
		temp := out[at+1:]
		if strings.Contains(out, "left") || strings.Contains(out, "secret") || !strings.Contains(out, "hidden: Permission denied") || strings.Contains(out, "made:") {
			t.Errorf("a command sees:\n%s", out)
		}
		if _, err := os.Stat(temp); !os.IsNotExist(err) || !filepath.IsAbs(temp) {
			t.Errorf("its directory %q is still there: %v", temp, err)
		}
	}
}

// What waits has been given a directory that is now another one, or has another name.
func TestPreparedIsReplaced(t *testing.T) {
	b := newBench(t, shared.Session{})
	b.Run("true")
	aside := b.Dir + ".aside"
	if err := os.Rename(b.Dir, aside); err != nil {
		t.Fatal(err)
	}
	b.makeWorkspace("another secret")
	script := "cat hidden; echo x > " + aside + "/src/planted; cat " + aside + "/hidden; echo x > src/new && cat src/new"
	for range 2 {
		if out := b.Run(script); strings.Contains(out, "secret") || strings.Count(out, "ermission denied") != 3 || !strings.HasSuffix(out, "\nx") {
			t.Errorf("in a new workspace of the same name: %q", out)
		}
	}
	if out := b.RunPrepared(script); !strings.HasSuffix(out, "\nx") {
		t.Errorf("then: %q", out)
	}
	if list, err := filepath.Glob(aside + "/src/*"); err != nil || len(list) > 0 {
		t.Errorf("what is no workspace any more was written to: %q, %v", list, err)
	}
}

// A directory with something hidden in it is granted name by name, and has a name more.
func TestPreparedSeesNewNames(t *testing.T) {
	b := newBench(t, shared.Session{})
	b.Run("true")
	for i := range 3 {
		name := "new" + strconv.Itoa(i)
		b.write(name, name)
		if out := b.Run("cat " + name); out != name {
			t.Errorf("%q is read of a file that is there by now", out)
		}
	}
}

// A command that leaves something running has ended when that is gone, too.
func TestPreparedLeavesNothing(t *testing.T) {
	b := newBench(t, shared.Session{})
	for range 3 {
		by, end := b.Start("sleep 60 >/dev/null 2>&1 & echo $!")
		out := end()
		if _, err := os.Stat("/proc/" + out); !os.IsNotExist(err) || out == "" {
			t.Errorf("process %q of a command that has ended: %v", out, err)
		}
		b.Next(by)
	}
}

// The directories of a session are made anew when somebody has removed them.
func TestPreparedInASession(t *testing.T) {
	b := newBench(t, shared.Session{ID: "prepared", Dir: t.TempDir()})
	temp := b.Run("echo $TMPDIR")
	b.RunPrepared("true")
	if err := os.RemoveAll(temp); err != nil || !filepath.IsAbs(temp) {
		t.Fatal(temp, err)
	}
	if out := b.Run("echo written > $TMPDIR/file; cat $TMPDIR/file"); out != "written" {
		t.Errorf("in a directory that was removed: %q", out)
	}
}

// Somebody kills or stops what waits: the next command has another.
func TestPreparedIsKilled(t *testing.T) {
	b := newBench(t, shared.Session{})
	for i := range 6 {
		b.Run("true")
		hurt(t, b.Waits, [...]unix.Signal{unix.SIGKILL, unix.SIGSTOP}[i%2])
		if out := b.Run("echo there"); out != "there" {
			t.Errorf("after the spare was killed or stopped: %q", out)
		}
	}
}

// hurt sends an init a signal that ends or stops it, and waits until it has.
func hurt(t *testing.T, init int, by unix.Signal) {
	t.Helper()
	if err := unix.Kill(init, by); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, init, nil, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil); err != nil && err != unix.ECHILD {
		t.Fatal(err)
	}
}

// Somebody stops the init of a command that runs: it is killed all the same.
func TestStoppedInit(t *testing.T) {
	b := newBench(t, shared.Session{})
	r, w := inside.Pipe(t)
	p, err := b.Sandbox.Start(t.Context(), shared.Command{Args: []string{"/bin/sh", "-c", "echo $$; exec sleep 1000"}, Dir: b.Dir, Env: inside.Env}, shared.Stdio{Stdout: w})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(r, &pid); err != nil {
		t.Fatal(err)
	}
	hurt(t, b.Inits()[0], unix.SIGSTOP)
	if err := p.Signal(t.Context(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	result, err := p.Wait(t.Context())
	if err != nil || result.Status.Signal != unix.SIGKILL {
		t.Errorf("%+v, %v", result, err)
	}
	if err := unix.Kill(pid, 0); err != unix.ESRCH {
		t.Errorf("the command runs still: %v", err)
		unix.Kill(pid, unix.SIGKILL)
	}
}
