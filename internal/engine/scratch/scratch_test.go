//go:build unix

package scratch

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// roleEngine has this program make a directory in the parent that it names, and wait.
const roleEngine = "SBXHOST_TEST_SCRATCH"

func TestMain(m *testing.M) {
	if parent := os.Getenv(roleEngine); parent != "" {
		d, err := New(parent, "test", nil)
		if err == nil {
			_, err = d.Make("temp")
		}
		if err != nil {
			panic(err)
		}
		os.Stdout.WriteString(d.Path + "\n")
		os.Stdin.Read(make([]byte, 1)) // for ever
	}
	os.Exit(m.Run())
}

// engine is a process with a directory.
func engine(t *testing.T, parent string) (cmd *exec.Cmd, dir string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(self)
	cmd.Env = append(os.Environ(), roleEngine+"="+parent)
	_, err = cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd, line[:len(line)-1]
}

func there(t *testing.T, p string) bool {
	_, err := os.Lstat(p)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func TestWhatAKilledEngineLeaves(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	alive, kept := engine(t, parent)
	killed, old := engine(t, parent)
	quick, recent := engine(t, parent)
	for _, cmd := range []*exec.Cmd{killed, quick} {
		cmd.Process.Kill() // SIGKILL
		cmd.Wait()
	}
	if err := os.Chmod(filepath.Join(old, "temp"), 0); err != nil {
		t.Fatal(err)
	}
	another := filepath.Join(parent, ".sbxhost-test") // whose name only begins so
	if err := errors.Join(os.Mkdir(another, 0o700), os.Symlink(t.TempDir(), filepath.Join(parent, ".sbxhost-test-link"))); err != nil {
		t.Fatal(err)
	}
	before := time.Now().Add(-2 * young)
	for _, dir := range []string{kept, old, another} {
		if err := os.Chtimes(dir, before, before); err != nil {
			t.Fatal(err)
		}
	}
	if !there(t, old) {
		t.Fatal("nothing is left by an engine that was killed")
	}
	_, next := engine(t, parent)
	for p, want := range map[string]bool{old: false, kept: true, recent: true, next: true, another: true, filepath.Join(parent, ".sbxhost-test-link"): true} {
		if there(t, p) != want {
			t.Errorf("%s is there: %v", p, !want)
		}
	}
	if alive.ProcessState != nil {
		t.Error("the engine that lives has ended")
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	d, err := New(t.TempDir(), "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	home, err := d.Make("home")
	if err == nil {
		err = os.Chmod(home, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.Remove()
	if there(t, d.Path) {
		t.Error("it is there still")
	}
	(*Dir)(nil).Remove()
}

// A command can nest directories deeper than a path or this process's descriptors reach.
func TestRemoveTreeIsDeep(t *testing.T) {
	t.Parallel()
	top := filepath.Join(t.TempDir(), "top")
	at, err := unix.Open(filepath.Dir(top), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for name, n := "top", 0; n < 3000 && err == nil; name, n = "d", n+1 {
		above := at
		if err = unix.Mkdirat(above, name, 0o700); err == nil {
			at, err = unix.Openat(above, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if n%1000 == 999 && err == nil {
				err = unix.Fchmod(above, 0o500)
			}
		}
		unix.Close(above)
	}
	unix.Close(at)
	if err := errors.Join(err, RemoveTree(top)); err != nil || there(t, top) {
		t.Errorf("it is still there: %v", err)
	}
}
