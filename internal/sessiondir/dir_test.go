package sessiondir

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

func mustDir(t *testing.T, base, name string) *Dir {
	t.Helper()
	u, err := New(base, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	return u
}

func mustPath(t *testing.T, u *Dir) string {
	t.Helper()
	dir, err := u.Path()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// visible lists base without what a sweep has already renamed away.
func visible(t *testing.T, base string) []string {
	t.Helper()
	entries, err := os.ReadDir(base)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestUserBase(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ goos, xdg, home, want string }{
		{"linux", "/x/cache", "/home/u", "/x/cache/sbxhost/sessions"},
		{"linux", "", "/home/u", "/home/u/.cache/sbxhost/sessions"},
		{"linux", "relative", "/home/u", "/home/u/.cache/sbxhost/sessions"},
		{"darwin", "", "/Users/u", "/Users/u/Library/Caches/sbxhost/sessions"},
		{"darwin", "/x/cache", "/Users/u", "/x/cache/sbxhost/sessions"},
		{"linux", "", "", ""},
		{"linux", "", "relative", ""},
	} {
		env := map[string]string{"XDG_CACHE_HOME": tt.xdg, "HOME": tt.home}
		got, err := userBase(tt.goos, func(k string) (string, bool) { v := env[k]; return v, v != "" })
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%+v: got %q, %v", tt, got, err)
		}
	}
}

func TestDirLifecycle(t *testing.T) {
	t.Parallel()
	base := tempDir(t) + "/cache/sbxhost/sessions"
	unused := mustDir(t, base, "")
	u := mustDir(t, base, "")
	if exists(filepath.Dir(base)) {
		t.Error("something was made before the first use")
	}
	dir := mustPath(t, u)
	if again := mustPath(t, u); again != dir {
		t.Errorf("second Dir: %q, then %q", dir, again)
	}
	sub, err := u.Sub("tmp")
	if err != nil || sub != dir+"/tmp" {
		t.Fatalf("Sub: %q, %v", sub, err)
	}
	if again, err := u.Sub("tmp"); again != sub || err != nil {
		t.Errorf("Sub again: %q, %v", again, err)
	}
	for _, name := range []string{"", ".", "..", "a/b", "/etc", lockFile, "a\x00"} {
		if got, err := u.Sub(name); !errors.Is(err, ErrName) {
			t.Errorf("Sub(%q): %q, %v", name, got, err)
		}
	}
	for _, p := range []string{base, dir, sub} {
		if fi, err := os.Lstat(p); err != nil || fi.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s: %v, %v", p, fi.Mode(), err)
		}
	}
	other := mustDir(t, base, "")
	if mustPath(t, other) == dir {
		t.Error("two session directories share a directory")
	}
	for range 2 {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
		if err := unused.Close(); err != nil {
			t.Error(err)
		}
	}
	if exists(dir) || !exists(mustPath(t, other)) {
		t.Error("Close removed the wrong one")
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if left := visible(t, base); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

func TestNamedSession(t *testing.T) {
	t.Parallel()
	base := tempDir(t) + "/sessions"
	for _, name := range []string{"", "-x", ".x", "a/b", "..", "a b", strings.Repeat("n", 65), "a\nb"} {
		if err := CheckName(name); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
	a, b := mustDir(t, base, "build-1"), mustDir(t, base, "build-1")
	dir := mustPath(t, a)
	if _, err := b.Path(); !errors.Is(err, ErrInUse) {
		t.Errorf("one name, two owners: %v", err)
	}
	tree(t, dir, map[string]string{"state": "kept"})
	if err := Remove(base, "build-1"); !errors.Is(err, ErrInUse) {
		t.Errorf("in use: %v", err)
	}
	list, err := List(base)
	if err != nil || len(list) != 1 || list[0].Name != "build-1" || list[0].Dir != dir || !list[0].InUse || time.Since(list[0].LastUsed) > time.Hour {
		t.Errorf("%+v, %v", list, err)
	}
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Error(err)
	}
	if list, err = List(base); err != nil || len(list) != 1 || list[0].InUse {
		t.Errorf("%+v, %v", list, err)
	}
	c := mustDir(t, base, "build-1")
	if data, err := os.ReadFile(mustPath(t, c) + "/state"); string(data) != "kept" || err != nil {
		t.Errorf("the next process finds %q, %v", data, err)
	}
	c.Close()
	if err := Remove(base, "build-1"); err != nil {
		t.Error(err)
	}
	if err := Remove(base, "build-1"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if left := visible(t, base); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// A process that is being started has a copy of each descriptor until it executes
// its program.
func TestCloseGivesTheLockUp(t *testing.T) {
	t.Parallel()
	base := tempDir(t) + "/sessions"
	u := mustDir(t, base, "build")
	mustPath(t, u)
	child, err := unix.FcntlInt(u.lock.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(child)
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	if list, err := List(base); err != nil || len(list) != 1 || list[0].InUse {
		t.Errorf("closed: %+v, %v", list, err)
	}
	if err := Remove(base, "build"); err != nil {
		t.Error(err)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	base := tempDir(t) + "/sessions"
	if removed, err := sweep(t.Context(), base, time.Now()); len(removed) != 0 || err != nil {
		t.Errorf("no base: %q, %v", removed, err)
	}
	live, named := mustDir(t, base, ""), mustDir(t, base, "live")
	mustPath(t, live)
	mustPath(t, named)
	tree(t, base, map[string]string{
		"u-dead/tmp/file": "x", "u-dead/lock": "", "u-unlocked/x": "x", "n-young/lock": "", "n-old/lock": "",
		".dead-left/deep/er": "x", "stranger/file": "x", "u-file": "x", "u-link": "-> stranger", "n-nolock/x": "x",
	})
	old := time.Now().Add(-namedMaxAge - time.Minute)
	for _, p := range []string{"n-old/lock", "n-live/lock", "u-dead/lock"} {
		if err := os.Chtimes(filepath.Join(base, p), old, old); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := sweep(t.Context(), base, time.Now())
	slices.Sort(removed)
	if want := []string{".dead-left", "n-old", "u-dead", "u-unlocked"}; !slices.Equal(removed, want) || err != nil {
		t.Errorf("removed %q, %v; want %q", removed, err, want)
	}
	for _, name := range []string{filepath.Base(mustPath(t, live)), "n-live", "n-young", "n-nolock", "stranger/file", "u-file", "u-link"} {
		if !exists(filepath.Join(base, name)) {
			t.Errorf("%s is gone", name)
		}
	}
	for _, name := range visible(t, base) {
		if strings.HasPrefix(name, deadPrefix) {
			t.Errorf("left: %s", name)
		}
	}
	// A week later, with its owner gone, the named one goes too.
	named.Close()
	removed, err = sweep(t.Context(), base, time.Now().Add(namedMaxAge+time.Minute))
	if !slices.Contains(removed, "n-live") || !slices.Contains(removed, "n-young") || err != nil {
		t.Errorf("a week later: %q, %v", removed, err)
	}
	if !exists(mustPath(t, live)) {
		t.Error("the live one is gone")
	}
}

// To look whether a named one is old keeps nobody out of it.
func TestSweepKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	base := tempDir(t) + "/sessions"
	mustPath(t, mustDir(t, base, "")) // a base
	ctx, cancel := context.WithCancel(t.Context())
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		for ctx.Err() == nil {
			sweep(t.Context(), base, time.Now())
		}
	}()
	for range 2000 {
		d := mustDir(t, base, "named")
		if _, err := d.Path(); err != nil {
			t.Error(err)
			break
		}
		d.Close()
	}
	cancel()
	<-swept
}

func TestSweepLeavesOtherUsers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("only root can make another user's entries; root's run shows that they stay")
		return
	}
	base := tempDir(t) + "/sessions"
	tree(t, base, map[string]string{"u-mine/lock": "", "u-theirs/lock": ""})
	tree(t, base, map[string]string{"n-theirs/lock": ""})
	for _, dir := range []string{"/u-theirs", "/n-theirs"} {
		if err := os.Chown(base+dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := List(base); len(list) != 0 || err != nil {
		t.Errorf("listed %+v, %v", list, err)
	}
	if err := Remove(base, "theirs"); !errors.Is(err, hostpath.ErrNotPrivate) || !exists(base+"/n-theirs/lock") {
		t.Errorf("removing theirs: %v", err)
	}
	removed, err := sweep(t.Context(), base, time.Now())
	if !slices.Equal(removed, []string{"u-mine"}) || err != nil || !exists(base+"/u-theirs/lock") {
		t.Errorf("removed %q, %v", removed, err)
	}
	if err := os.Chown(base, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	u := mustDir(t, base, "")
	if dir, err := u.Path(); !errors.Is(err, hostpath.ErrNotPrivate) {
		t.Errorf("another user's base: %q, %v", dir, err)
	}
	u = mustDir(t, base+"/further/down", "")
	if dir, err := u.Path(); !errors.Is(err, hostpath.ErrNotPrivate) || exists(base+"/further") {
		t.Errorf("below another user's directory: %q, %v", dir, err)
	}
	if _, err := sweep(t.Context(), base, time.Now()); !errors.Is(err, hostpath.ErrNotPrivate) {
		t.Error(err)
	}
}

func TestUnsafeBase(t *testing.T) {
	t.Parallel()
	base := tempDir(t)
	tree(t, base, map[string]string{"real": "dir", "link": "-> real", "file": "x", "open": "dir"})
	if err := os.Chmod(base+"/open", 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "file", "open"} {
		u := mustDir(t, filepath.Join(base, name), "")
		if dir, err := u.Path(); !errors.Is(err, hostpath.ErrNotPrivate) {
			t.Errorf("%s: %q, %v", name, dir, err)
		}
	}
	for _, bad := range []string{"relative", "/a\x00b"} {
		if _, err := ResolveBase(bad, nil); !errors.Is(err, errBase) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	// A name that someone else took by a symlink is not followed.
	tree(t, base, map[string]string{"s": "dir", "s/n-x": "-> ../real"})
	if err := os.Chmod(base+"/s", 0o700); err != nil {
		t.Fatal(err)
	}
	if dir, err := mustDir(t, base+"/s", "x").Path(); !errors.Is(err, hostpath.ErrNotPrivate) {
		t.Errorf("symlink for a session: %q, %v", dir, err)
	}
}

// runJob is one of the processes that the tests below start.
func runJob(job string) int {
	what, rest, _ := strings.Cut(job, ":")
	base, arg, _ := strings.Cut(rest, ":")
	var err error
	switch what {
	case "hold": // own a session directory until stdin ends
		var u *Dir
		if u, err = New(base, arg, nil); err == nil {
			var dir string
			if dir, err = u.Path(); err == nil {
				fmt.Println(dir)
				io.Copy(io.Discard, os.Stdin)
				err = u.Close()
			}
		}
	case "full": // claim where nothing can be written
		signal.Ignore(syscall.SIGXFSZ)
		var u *Dir
		if err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{}); err == nil {
			u, err = New(base, arg, nil)
		}
		if err == nil {
			err = errors.Join(u.Claim("/p/a"), u.Close())
		}
	case "churn": // make, use, sweep, close, over and over
		n, _ := strconv.Atoi(arg)
		err = churn(base, n)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func churn(base string, rounds int) error {
	for i := range rounds {
		name := ""
		if i%3 == 0 {
			name = "shared"
		}
		var owner *User
		if os.Getuid() == 0 && i%2 == 0 {
			owner = &User{UID: 54321, GID: 54321}
		}
		u, err := New(base, name, owner)
		if err != nil {
			return err
		}
		sub, err := u.Sub("tmp")
		if errors.Is(err, ErrInUse) { // another one's round
			continue
		} else if err != nil {
			return err
		}
		own := filepath.Join(sub, strconv.Itoa(os.Getpid()))
		if err := os.WriteFile(own, []byte("alive"), 0o600); err != nil {
			return fmt.Errorf("live session directory swept: %w", err)
		}
		// Everything counts as too old, so that named ones are contested, too.
		if _, err := sweep(context.Background(), base, time.Now().Add(2*namedMaxAge)); err != nil {
			return err
		}
		if data, err := os.ReadFile(own); err != nil || string(data) != "alive" {
			return fmt.Errorf("live session directory swept: %q, %w", data, err)
		}
		if err := u.Close(); err != nil {
			return err
		}
	}
	return nil
}

func job(t *testing.T, spec string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "SESSIONDIR_TEST_JOB="+spec)
	cmd.Stderr = os.Stderr
	return cmd
}

// Many processes make, sweep and close at once; none ever loses a live session directory
// and nothing is left.
func TestSweepNeverRemovesTheLiving(t *testing.T) {
	t.Parallel()
	base := tempDir(t) + "/sessions"
	witness := mustDir(t, base, "")
	dir := mustPath(t, witness)
	var cmds []*exec.Cmd
	for range 12 {
		cmd := job(t, "churn:"+base+":40")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	if !exists(dir) {
		t.Error("the witness's session directory is gone")
	}
	if err := witness.Close(); err != nil {
		t.Error(err)
	}
	if _, err := sweep(context.Background(), base, time.Now().Add(2*namedMaxAge)); err != nil {
		t.Error(err)
	}
	if left := visible(t, base); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// Kill -9 of the owner is the end of the lock; an inherited duplicate is not.
func TestSweepAfterKill(t *testing.T) {
	t.Parallel()
	base := tempDir(t) + "/sessions"
	cmd := job(t, "hold:"+base+":")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dir, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	dir = strings.TrimSpace(dir)
	tree(t, dir, map[string]string{"work/work": "dir"})
	if err := os.Chmod(dir+"/work/work", 0); err != nil {
		t.Fatal(err)
	}
	if removed, err := sweep(context.Background(), base, time.Now()); len(removed) != 0 || err != nil || !exists(dir) {
		t.Errorf("while it lives: removed %q, %v", removed, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if removed, err := sweep(context.Background(), base, time.Now()); len(removed) != 1 || err != nil || exists(dir) {
		t.Errorf("after its death: removed %q, %v", removed, err)
	}
}

// Whoever has the lock of a named session directory holds up nobody.
func TestHeldLock(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	first := mustDir(t, base, "x")
	dir, err := first.Path()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	held, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	u := mustDir(t, base, "x")
	_, err = u.Path()
	if e, ok := errors.AsType[*InUseError](err); !ok || !errors.Is(err, ErrInUse) || e.What != `session "x"` || e.Holder() != fmt.Sprint("process ", os.Getpid()) {
		t.Errorf("got %v", err)
	}
	guest := u.Guest()
	if at, err := guest.Path(); err != nil || at != dir {
		t.Errorf("a guest's: %q, %v", at, err)
	}
	if err := guest.Close(); err != nil || !exists(dir) {
		t.Errorf("a guest has left: %v", err)
	}
	release(held)
	if again, err := u.Path(); err != nil || again != dir {
		t.Errorf("with the lock given up: %q, %v", again, err)
	}
}

// Somebody who has set XDG_CACHE_HOME to where nothing can be made is told so.
func TestBaseThatCannotBe(t *testing.T) {
	t.Parallel()
	_, err := mustDir(t, "/proc/sbxhost", "").Path()
	if err == nil || !strings.Contains(err.Error(), "mkdir") {
		t.Errorf("%v", err)
	}
}
