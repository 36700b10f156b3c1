package holder

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary is the holder, as sbxhost-init is.
func TestMain(m *testing.M) {
	if Requested(os.Args) {
		os.Exit(Main(os.Args))
	}
	os.Exit(m.Run())
}

func self() (*os.File, error) {
	fd, err := unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	return os.NewFile(uintptr(fd), "self"), err
}

// works says why there can be no holder on this machine.
var works = sync.OnceValue(func() error {
	dir, err := os.MkdirTemp("", "holder")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, err := Connect(context.Background(), Config{Dir: dir, Executable: self})
	if err == nil {
		c.Close()
		awaitEnd(dir)
	}
	return err
})

func need(t *testing.T) {
	t.Helper()
	if err := works(); err != nil {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "bwrap") {
			t.Fatalf("a holder is required: %v", err)
		}
		t.Skipf("no holder here: %v", err)
	}
}

// awaitEnd waits until no holder has dir's lock.
func awaitEnd(dir string) {
	fd, err := unix.Open(filepath.Join(dir, "holder", "u"+strconv.Itoa(os.Geteuid()), lockName), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	unix.Flock(fd, unix.LOCK_EX)
}

// session is a session's directory. Its holder must be gone when the test is.
func session(t *testing.T) string {
	t.Helper()
	need(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		awaitEnd(dir)
		// What an overlay's work directory holds has no rights at all.
		filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if d != nil && d.IsDir() {
				os.Chmod(p, 0o700)
			}
			return nil
		})
	})
	return dir
}

func connect(t *testing.T, dir string) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Connect(ctx, Config{Dir: dir, Executable: self})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// system is a tree with the programs of this machine.
func system() []Op {
	ops := []Op{{Kind: Root, Dest: "/0"}}
	for _, p := range []string{"/usr", "/bin", "/lib", "/lib64"} {
		if target, err := os.Readlink(p); err == nil {
			ops = append(ops, Op{Kind: Symlink, Source: target, Dest: "/0" + p})
		} else if _, err := os.Lstat(p); err == nil {
			ops = append(ops, Op{Kind: ReadOnlyBind, Source: p, Dest: "/0" + p})
		}
	}
	return ops
}

// start runs shell text in the place of an init that has not completed its sandbox: the
// tree is in Trees, and there are no other namespaces yet.
func start(t *testing.T, c *Client, ops []Op, text string) (*Process, *os.File, error) {
	t.Helper()
	return startGrouped(t, nil, c, ops, text)
}

// startGrouped is start in a control group, with overlays of its own from descriptor 3 on.
func startGrouped(t *testing.T, group *os.File, c *Client, ops []Op, text string, overlays ...string) (*Process, *os.File, error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	defer w.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.Start(t.Context(), Start{Plan: NewPlan(ops), Argv: []string{Host + shell, "-c", text}, Files: []*os.File{null, w, w}, Group: group, Overlays: overlays})
	return l, r, err
}

func sh(t *testing.T, c *Client, ops []Op, text string) string {
	t.Helper()
	l, r, err := start(t, c, ops, text)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := io.ReadAll(r)
	status, err := l.Wait()
	if err != nil || !status.Exited() {
		t.Fatalf("%v, %v: %s", status, err, out)
	}
	return string(out)
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

func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// What a command makes has the modes that its caller's umask says, and not the
// holder's, which is 0 and would let everybody write it.
func TestUmaskIsTheCallers(t *testing.T) {
	t.Parallel()
	dir := session(t)
	c := connect(t, dir)
	want, err := exec.Command("/bin/sh", "-c", "umask").Output()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second in a prepared tree
		if got := sh(t, c, system(), "umask"); got != string(want) {
			t.Errorf("umask in the holder's tree: %q, want %q", got, want)
		}
	}
}

// Nothing of one tree is seen from another.
func TestInitsAreApart(t *testing.T) {
	t.Parallel()
	c := connect(t, session(t))
	dir := tempDir(t)
	write(t, dir+"/f", "f")
	one := append(system(), Op{Kind: ReadOnlyBind, Source: dir, Dest: "/1"})
	// What it completes its sandbox with, and no more can be had.
	const caps = "00000000802030c0\n"
	if got := sh(t, c, one, "cat /.tree/1/f; cat /proc/self/status | grep -E '^Cap(Prm|Eff|Bnd)'"); got != "fCapPrm:\t"+caps+"CapEff:\t"+caps+"CapBnd:\t0000000000000000\n" {
		t.Errorf("%q", got)
	}
	if got := sh(t, c, system(), "ls /.tree; env | sort"); got != "0\nGOMAXPROCS=1\nPWD=/\n" {
		t.Errorf("%q", got)
	}
}
