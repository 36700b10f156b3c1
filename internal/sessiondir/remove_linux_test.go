package sessiondir

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/testing/netns"
)

// mapped makes a tree of users that this one is mapped to, with what keeps a
// user out, and whose files are theirs. For root that is anybody.
func mapped(t *testing.T, dir string) {
	t.Helper()
	const script = `set -e; cd "$1"; mkdir -p a/b/c a/shut/work/work; echo x >a/b/c/f; echo x >a/shut/f; mkfifo a/b/fifo; ln -s / a/b/root
		chown -h 7:7 a/b/c/f a/b/fifo a/b/root; chown 7:7 a/b/c; chown -R 8:9 a/shut; chmod 0 a/shut/work/work a/shut; chmod 500 a/b/c; chmod 1777 a/b`
	cmd := exec.Command("/bin/sh", "-c", script, "sh", dir)
	if os.Geteuid() != 0 {
		need(t, "newuidmap")
		cmd = exec.Command("unshare", "--user", "--map-root-user", "--map-auto", "--", "/bin/sh", "-c", script, "sh", dir)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if fi, err := os.Lstat(dir + "/a/b/c"); err != nil || int(fi.Sys().(*syscall.Stat_t).Uid) == os.Geteuid() {
		t.Fatalf("the control: %v, %v is nobody else's", fi, err)
	}
}

// What a container has left that was given a range of users' numbers goes with
// the session, and with the sweep.
func TestRemoveMappedFiles(t *testing.T) {
	t.Parallel()
	base := tempDir(t) + "/sessions"
	u := mustDir(t, base, "work")
	tmp, err := u.Sub("tmp")
	if err != nil {
		t.Fatal(err)
	}
	mapped(t, tmp)
	u.Close()
	if err := Remove(base, "work"); err != nil {
		t.Error(err)
	}
	if os.Geteuid() != 0 {
		// The control: without such a namespace it is not to be removed, and named.
		tree(t, base, map[string]string{"t/f": "x"})
		mapped(t, base+"/t")
		if err := hostpath.RemoveTree(t.Context(), base, "t"); !errors.Is(err, hostpath.ErrNotRemoved) || !strings.Contains(err.Error(), base+"/t/a/") || exists(base+"/t/f") {
			t.Errorf("control: %v", err)
		}
		if err := RemoveTree(t.Context(), base, "t"); err != nil {
			t.Error(err)
		}
	}
	tree(t, base, map[string]string{"u-dead/tmp/f": "x", ".dead-left/f": "x"})
	mapped(t, base+"/u-dead/tmp")
	mapped(t, base+"/.dead-left")
	if removed, err := sweep(t.Context(), base, time.Now()); len(removed) != 2 || err != nil {
		t.Errorf("removed %q, %v", removed, err)
	}
	if left := visible(t, base); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// mountsEnv is set where TestRemoveNamesWhatIsLeft mounts: in a mount namespace of its own.
const mountsEnv = "SBXHOST_TEST_MOUNTS"

// What cannot be removed is named, with what to do; the rest goes. What somebody
// has mounted in a session is not the session's, and stays as it is.
func TestRemoveNamesWhatIsLeft(t *testing.T) {
	if os.Getenv(mountsEnv) == "" {
		t.Parallel()
		netns.Again(t, unix.CLONE_NEWNS, 0, mountsEnv+"=1")
		return
	}
	base, outside := tempDir(t)+"/sessions", tempDir(t)
	tree(t, outside, map[string]string{"keep": "x"})
	u := mustDir(t, base, "work")
	tmp, err := u.Sub("tmp")
	if err != nil {
		t.Fatal(err)
	}
	tree(t, tmp, map[string]string{"a/b": "dir", "a/c": "dir", "z/gone": "x"})
	deep(t, tmp, "d", 200, nil)
	for _, name := range []string{"/a/b", "/a/c"} {
		if err := unix.Mount(outside, tmp+name, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	free := func() {
		mounts, _ := filepath.Glob(base + "/*/tmp/a/*")
		for _, dir := range mounts {
			unix.Unmount(dir, unix.MNT_DETACH)
		}
	}
	t.Cleanup(free)
	u.Close()
	err = Remove(base, "work")
	left := visible(t, base)
	if err == nil || len(left) != 1 || !strings.HasPrefix(left[0], deadPrefix) {
		t.Fatalf("%v, left %q", err, left)
	}
	dead := filepath.Join(base, left[0])
	for _, want := range []string{fmt.Sprintf("%q", base+"/n-work"), dead + "/tmp/a/", "cannot be removed", "busy", fmt.Sprintf("rm -r %q", dead)} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	if exists(dead+"/tmp/z") || exists(dead+"/tmp/d") {
		t.Error("the rest was not removed")
	}
	if _, err := sweep(t.Context(), base, time.Now()); err == nil || !strings.Contains(err.Error(), dead+"/tmp/a/") {
		t.Errorf("the sweep: %v", err)
	}
	free()
	if removed, err := sweep(t.Context(), base, time.Now()); len(removed) != 1 || err != nil || len(visible(t, base)) != 0 {
		t.Errorf("once it can: %q, %v", removed, err)
	}
	if !exists(outside + "/keep") {
		t.Error("what was mounted is gone")
	}
}
