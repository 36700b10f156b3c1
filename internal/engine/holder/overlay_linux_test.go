package holder

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// Two commands have two overlays of one directory, of which nothing is left.
func TestOverlaysOfTheirOwn(t *testing.T) {
	t.Parallel()
	dir, lower := session(t), tempDir(t)
	write(t, lower+"/one/f", "lower")
	c := connect(t, dir)
	layers := func() []string {
		found, _ := filepath.Glob(dir + "/holder/*/own/*/0.upper")
		return found
	}
	const text = "cd /proc/self/fd/3/ && cat f && test ! -e made && mkdir -p made/locked && echo made >f && chmod 0 made && exec sleep 1000"
	var all []*Process
	for range 2 {
		l, r, err := startGrouped(t, nil, c, system(), text, lower+"/one")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, len("lower"))); err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	if n := len(layers()); n != 2 {
		t.Errorf("%d overlays", n)
	}
	if !c.Same(t.Context(), all[0]) {
		t.Error("one with an overlay is not what it was")
	}
	if err := os.Rename(lower+"/one", lower+"/was"); err != nil {
		t.Fatal(err)
	}
	write(t, lower+"/one/f", "another")
	if c.Same(t.Context(), all[0]) {
		t.Error("one with an overlay of what lies elsewhere now is what it was")
	}
	for _, l := range all {
		l.Kill()
		l.Wait()
	}
	for len(layers()) > 0 && t.Context().Err() == nil {
		runtime.Gosched()
	}
	if _, refused := errors.AsType[*MountError](c.Overlay(t.Context(), lower+"/one/f", true)); !refused {
		t.Error("a file has an overlay")
	}
	if err := c.Overlay(t.Context(), lower+"/one", true); err != nil || len(layers()) > 0 {
		t.Errorf("%v, and there is %q", err, layers())
	}
}

// Overlays of directories that lie in one are parts of one overlay: of that one, nobody sees more.
func TestOverlaysTogether(t *testing.T) {
	t.Parallel()
	dir, home := session(t), tempDir(t)
	for name, text := range map[string]string{"cache/build/f": "f", "tools/g": "g", "private": "p"} {
		write(t, home+"/"+name, text)
	}
	c := connect(t, dir)
	const text = "cd /proc/self/fd/3/ && cat f && rm f && echo n >n && ls .. && cd /proc/self/fd/4/ && cat g && echo n >g && ls ../.. && cat g && test ! -e ../private"
	l, r, err := startGrouped(t, nil, c, system(), text, home+"/cache/build", home+"/tools")
	if err != nil {
		t.Fatal(err)
	}
	if out, _ := io.ReadAll(r); string(out) != "fn\ngg\nn\n" {
		t.Errorf("%q", out)
	}
	if status, err := l.Wait(); err != nil || status != 0 {
		t.Errorf("%v, %v", status, err)
	}
	if f, err := os.ReadFile(home + "/cache/build/f"); string(f) != "f" {
		t.Errorf("the host's file is %q, %v", f, err)
	}
}

// An overlay cannot copy a directory of a group that the user namespace does not map.
func TestOwnedBelow(t *testing.T) {
	t.Parallel()
	home := tempDir(t)
	write(t, home+"/cache/build/f", "")
	write(t, home+"/other/build/f", "")
	dir, err := unix.Open(home, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(dir)
		err = os.Symlink("cache", home+"/link")
	}
	if err != nil {
		t.Fatal(err)
	}
	foreign := os.Chown(home+"/other", -1, 12345) == nil // as root alone
	for path, want := range map[string]bool{"cache": true, "cache/build": true, "other/build": !foreign, "link/build": false, "missing": false} {
		if got := ownedBelow(dir, path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

func TestCommonDir(t *testing.T) {
	t.Parallel()
	for want, list := range map[string][]string{
		"":         {"/usr", "/opt", "/home/u/go"},
		"/home/u":  {"/usr", "/usr/a", "/home/u/a", "/opt/b", "/home/u/b/c", "/home/ub/c"},
		"/a/b/c":   {"/a/b/c/d", "/a/b/c/e/f"},
		"/a/b/c/d": {"/a/b/c/d/x", "/a/b/c/d/y"},
	} {
		if got := commonDir(list, func(dir string) bool { return dir != "/home" }); got != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}

func TestOverlay(t *testing.T) {
	t.Parallel()
	dir := session(t)
	lower := tempDir(t)
	write(t, lower+"/d/f", "lower")
	if err := os.Chmod(lower, 0o751); err != nil {
		t.Fatal(err)
	}
	ops := append(system(), Op{Kind: Overlay, Source: lower, Dest: "/0/o"})
	c := connect(t, dir)
	if err := c.Overlay(t.Context(), lower, false); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, c, ops, "cd /.tree/0/o; stat -c %a .; cat d/f; echo upper > d/f; rm -f d/g; mkdir e; mv d/f e/f; rmdir d; cat e/f; ls"); got != "751\nlowerupper\ne\n" {
		t.Errorf("%q", got)
	}
	if got := sh(t, c, append(ops, Op{Kind: ReadOnly, Dest: "/0"}), "cd /.tree/0/o; cat e/f; touch n; ls"); got != "upper\ne\nn\n" {
		t.Errorf("%q", got)
	}
	// Another holder: the session's state is not the process's.
	c.Close()
	three := connect(t, dir)
	if got := sh(t, three, ops, "cd /.tree/0/o; ls; cat e/f; mkdir d; ls d"); got != "e\nn\nupper\n" {
		t.Errorf("%q", got)
	}
	if b, _ := os.ReadFile(lower + "/d/f"); string(b) != "lower" {
		t.Errorf("the host's file is %q", b)
	}
	if err := three.Overlay(t.Context(), lower+"/absent", false); err == nil {
		t.Error("an overlay of nothing")
	}
	if err := three.Overlay(t.Context(), "/", false); err == nil {
		t.Error("an overlay of a tree with mounts in it")
	}
}

// Where the kernel cannot make its own directory, as on a full disk, it mounts an overlay read-only.
func TestOverlayIsNeverReadOnly(t *testing.T) {
	t.Parallel()
	dir, lower := session(t), tempDir(t)
	c := connect(t, dir)
	if err := c.Overlay(t.Context(), lower, false); err != nil {
		t.Fatal(err)
	}
	c.Close()
	awaitEnd(dir)
	work, _ := filepath.Glob(dir + "/*/*/overlay/*/work/work")
	if len(work) != 1 {
		t.Fatalf("%q", work)
	}
	write(t, work[0]+"/deep/as/no/remains/f", "") // the kernel removes what it has left itself
	if err := connect(t, dir).Overlay(t.Context(), lower, false); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("%v", err)
	}
}

// A power cut can leave the record of an overlay's directory empty.
func TestClaimAfterPowerCut(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	base, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(base)
	write(t, dir+"/source", "")
	for range 2 {
		if failed := claim(base, "/a"); failed != nil {
			t.Error(failed)
		}
	}
	if failed := claim(base, "/b"); failed == nil || !strings.Contains(failed.Error(), `it is that of "/a"`) {
		t.Errorf("claimed for two sources: %v", failed)
	}
}

// A path beneath a directory is in its shortest form: another would lead somewhere else than its
// words say.
func TestOpenBeneath(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	write(t, dir+"/a/b/f", "")
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for relative, want := range map[string]error{
		".": nil, "a": nil, "a/b/f": nil,
		"": unix.EXDEV, "/a": unix.EXDEV, "..": unix.EXDEV, "a/../..": unix.EXDEV,
		"a/..": unix.EXDEV, "a/b/../b": unix.EXDEV, "./a": unix.EXDEV, "a/": unix.EXDEV, "a//b": unix.EXDEV, "a/./b": unix.EXDEV,
	} {
		got, err := openBeneath(fd, relative)
		if err == nil {
			unix.Close(got)
		}
		if err != want {
			t.Errorf("%q: %v, want %v", relative, err, want)
		}
	}
}

// The kernel ends an overlay when it has written the disk, which takes long after a command that has written much.
func TestLateEndOfAMount(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		after time.Duration
		want  error
	}{{0, nil}, {45 * time.Second, nil}, {time.Hour, unix.EBUSY}} {
		synctest.Test(t, func(t *testing.T) {
			end := time.Now().Add(test.after)
			err := patiently(func() error {
				if time.Now().Before(end) {
					return unix.EBUSY
				}
				return nil
			})
			if err != test.want {
				t.Errorf("a mount that ends after %v: %v", test.after, err)
			}
		})
	}
}
