package sessiondir

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What commands leave behind: overlay work directories of mode 000, trees
// without write permission, symlinks to elsewhere, depth beyond any path.
func TestRemoveTree(t *testing.T) {
	t.Parallel()
	base := tempDir(t)
	tree(t, base, map[string]string{
		"keep/file": "x", "keep/shut/file": "x",
		"gone/work/work": "dir", "gone/a/b/c": "x", "gone/link": "-> ../keep", "gone/a/link": "-> ../../keep/file",
		"gone/ro/file": "x", "gone/ro/sub/file": "x", "gone/dangling": "-> nowhere", "gone/quo\"te\n": "x",
	})
	if err := syscall.Mkfifo(base+"/gone/fifo", 0); err != nil {
		t.Fatal(err)
	}
	for p, mode := range map[string]fs.FileMode{"gone/work/work": 0, "gone/ro/sub": 0o500, "gone/ro": 0o500, "gone/a": 0, "keep/shut": 0o500, "gone": 0o100} {
		if err := os.Chmod(filepath.Join(base, p), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { os.Chmod(base+"/keep/shut", 0o700) })
	if os.Geteuid() != 0 {
		// The control: what the standard library does about it.
		if err := os.RemoveAll(base + "/gone/ro/sub"); err == nil {
			t.Error("control: the tree was no obstacle")
		}
	}
	if err := RemoveTree(t.Context(), base, "gone"); err != nil {
		t.Error(err)
	}
	if fi, err := os.Stat(base + "/keep/shut"); exists(base+"/gone") || err != nil || fi.Mode().Perm() != 0o500 || !exists(base+"/keep/file") {
		t.Errorf("gone: %v, keep: %v, %v", exists(base+"/gone"), fi, err)
	}
	if err := RemoveTree(t.Context(), base, "gone"); err != nil {
		t.Errorf("nothing there: %v", err)
	}
	if err := RemoveTree(t.Context(), base, "keep/file"); err == nil {
		t.Error("a file was removed as a tree")
	}
}

func TestRemoveDeepTree(t *testing.T) {
	t.Parallel()
	base := tempDir(t)
	name := strings.Repeat("d", 200) // far beyond PATH_MAX
	deep(t, base, name, 10000, nil)
	if err := RemoveTree(t.Context(), base, name); err != nil || exists(filepath.Join(base, name)) {
		t.Error(err)
	}
}

// A process with few descriptors left can remove a tree, however deep it is.
func TestRemoveTreeNeedsFewDescriptors(t *testing.T) {
	const few = "SBXHOST_TEST_FEW"
	base := os.Getenv(few)
	if base == "" {
		t.Parallel()
		base = tempDir(t)
		deep(t, base, "d", 200, nil)
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), few+"="+base)
		if out, err := cmd.CombinedOutput(); err != nil || exists(base+"/d") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 100, Max: 100}); err != nil {
		t.Fatal(err)
	}
	if err := RemoveTree(t.Context(), base, "d"); err != nil {
		t.Error(err)
	}
}

func TestRemoveLargeTree(t *testing.T) {
	t.Parallel()
	base := tempDir(t)
	tree(t, base, map[string]string{"t/d": "dir", "keep": "x"})
	for i := range 20000 {
		if err := os.Link(base+"/keep", fmt.Sprintf("%s/t/d/%d", base, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveTree(t.Context(), base, "t"); err != nil || exists(base+"/t") || !exists(base+"/keep") {
		t.Error(err)
	}
}

func TestRemoveTreeTogether(t *testing.T) {
	t.Parallel()
	base := tempDir(t)
	for i := range 40 {
		tree(t, base, map[string]string{fmt.Sprintf("t/%d/a/b/c", i): "x"})
	}
	errs := make(chan error)
	for range 4 {
		go func() { errs <- RemoveTree(t.Context(), base, "t") }()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// A command that goes on renaming while its session is removed - one of a
// container, which no lock stops - leads the removal nowhere.
func TestRemoveWhileRenamed(t *testing.T) {
	t.Parallel()
	base, outside := tempDir(t), tempDir(t)
	tree(t, outside, map[string]string{"keep": "x", "dir/keep": "x"})
	for round := range 5 {
		for i := range 200 {
			tree(t, base, map[string]string{fmt.Sprintf("t/%d/%d/f", i%10, i): "x"})
		}
		tree(t, base, map[string]string{"t/play/a/dir/f": "x", "t/play/b": "dir"})
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			a, b := base+"/t/play/a/dir", base+"/t/play/b/dir"
			for {
				select {
				case <-stop:
					return
				default:
				}
				os.Rename(a, b)
				os.Symlink(outside+"/dir", a)
				os.Remove(a)
				os.Symlink(outside, base+"/t/play/b/x")
				os.Rename(b, a)
				os.MkdirAll(a, 0o700)
				for i := range 10 {
					os.Rename(fmt.Sprintf("%s/t/%d", base, i), a+"/in")
					os.Symlink(outside, fmt.Sprintf("%s/t/%d", base, i))
				}
			}
		}()
		_ = RemoveTree(t.Context(), base, "t") // it may be outrun
		close(stop)
		<-done
		if err := RemoveTree(t.Context(), base, "t"); err != nil || exists(base+"/t") {
			t.Errorf("round %d: %v", round, err)
		}
		if !exists(outside+"/keep") || !exists(outside+"/dir/keep") {
			t.Fatal("what links lead to was removed")
		}
	}
}
