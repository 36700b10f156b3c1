package holder

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
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
func start(t *testing.T, c *Client, ops []Op, text string) (*Launcher, *os.File, error) {
	t.Helper()
	return startGrouped(t, nil, c, ops, text)
}

// startGrouped is start in a control group, with overlays of its own from descriptor 3 on.
func startGrouped(t *testing.T, group *os.File, c *Client, ops []Op, text string, overlays ...string) (*Launcher, *os.File, error) {
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

// An init is born in the control group that came with the request, and outside where
// that cannot be: here the descriptor is no control group's.
func TestBornInGroup(t *testing.T) {
	t.Parallel()
	c := connect(t, session(t))
	plain, err := os.Open(tempDir(t))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	of := func(group *os.File) string {
		l, r, err := startGrouped(t, group, c, system(), "echo started; kill -STOP $$")
		if err != nil {
			t.Fatal(err)
		}
		if text, err := bufio.NewReader(r).ReadString('\n'); err != nil {
			t.Fatalf("%q, %v", text, err)
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", l.Pid()))
		if err != nil {
			t.Fatal(err)
		}
		l.Kill()
		l.Wait()
		return string(text)
	}
	if got := of(plain); got != string(own) {
		t.Errorf("started in %s, want %s", got, own)
	}
	dir := v2Group(t, string(own))
	group, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	if got := of(group); !strings.Contains(got, "0::/") || !strings.Contains(got, "/"+filepath.Base(dir)+"\n") {
		t.Errorf("started in %s, want %s", got, dir)
	}
}

// v2Group makes a group of version 2 that limits nothing, beneath this process's own.
func v2Group(t *testing.T, own string) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if !strings.Contains(line, " - cgroup2 ") || len(f) < 5 || f[3] != "/" {
			continue
		}
		_, path, _ := strings.Cut(own, "0::")
		dir, err := os.MkdirTemp(filepath.Join(f[4], strings.TrimSpace(path)), "sbxhost-test-")
		if err == nil {
			t.Cleanup(func() {
				if err := os.Remove(dir); err != nil {
					t.Error(err)
				}
			})
			return dir
		}
	}
	t.Skip("no group of version 2 is this process's to divide")
	return ""
}

func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTree(t *testing.T) {
	t.Parallel()
	c := connect(t, session(t))
	dir := tempDir(t)
	write(t, dir+"/ro/f", "ro")
	write(t, dir+"/rw/a/b/secret", "secret")
	write(t, dir+"/rw/hidden/x", "x")
	ops := append(system(),
		Op{Kind: ReadOnlyBind, Source: dir + "/ro", Dest: "/0/deep/ro"},
		Op{Kind: Bind, Source: dir + "/rw", Dest: "/0/rw"},
		Op{Kind: Pin, Dest: "/0/rw/a"},
		Op{Kind: Pin, Dest: "/0/rw/a/b"},
		Op{Kind: HideFile, Dest: "/0/rw/a/b/secret"},
		Op{Kind: HideDirectory, Dest: "/0/rw/hidden"},
		Op{Kind: Directory, Dest: "/0/run", Perms: 0o750},
		Op{Kind: File, Source: dir + "/ro/f", Dest: "/0/etc/f", Perms: 0o444},
		Op{Kind: Home, Source: "h", Dest: "/0/home/u", Perms: 0o700, Size: 1 << 20},
		Op{Kind: ReadOnly, Dest: "/0"},
	)
	got := sh(t, c, ops, `cd /.tree/0 && cat deep/ro/f etc/f; echo
		touch deep/ro/x x etc/x run/x 2>/dev/null && echo wrote
		echo new > rw/new && cat rw/new
		cat rw/a/b/secret 2>/dev/null && echo read
		echo x 2>/dev/null > rw/a/b/secret && echo wrote
		test $(id -u) != 0 && ls rw/hidden 2>/dev/null && echo listed
		mv rw/a rw/c 2>/dev/null && echo moved; mv rw/a/b rw/c 2>/dev/null && echo moved
		rmdir rw/hidden 2>/dev/null && echo removed
		echo mine > home/u/x; stat -c %a run home/u`)
	if want := "roro\nnew\n750\n700\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if b, _ := os.ReadFile(dir + "/rw/a/b/secret"); string(b) != "secret" {
		t.Errorf("the secret is %q", b)
	}
	// The home is the session's.
	other := append(system(), Op{Kind: Home, Source: "h", Dest: "/0/h", Perms: 0o700, Size: 1 << 20})
	if got := sh(t, c, other, "cat /.tree/0/h/x"); got != "mine\n" {
		t.Errorf("home: %q", got)
	}
}

// What a command makes has the modes that its caller's umask says, and not the
// holder's, which is 0 and would let everybody write it.
func TestUmaskIsTheCallers(t *testing.T) {
	t.Parallel()
	dir := session(t)
	c := connect(t, dir)
	want := fmt.Sprintf("%04o\n", umask())
	for range 2 { // the second in a prepared tree
		if got := sh(t, c, system(), "umask"); got != want {
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

func TestSourcesAreNeverFollowed(t *testing.T) {
	t.Parallel()
	c := connect(t, session(t))
	dir := tempDir(t)
	write(t, dir+"/real/f", "f")
	if err := os.Symlink("real", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/rw/x", "")
	if err := os.Symlink(dir+"/real", dir+"/rw/planted"); err != nil {
		t.Fatal(err)
	}
	for _, extra := range [][]Op{
		{{Kind: Bind, Source: dir + "/link", Dest: "/1"}},
		{{Kind: Bind, Source: dir + "/link/f", Dest: "/1"}},
		{{Kind: File, Source: dir + "/link/f", Dest: "/1", Perms: 0o444}},
		{{Kind: Bind, Source: dir + "/real/../real", Dest: "/1"}},
		{{Kind: Bind, Source: dir + "/absent", Dest: "/1"}},
		{{Kind: Bind, Source: dir + "/rw", Dest: "/1"}, {Kind: Bind, Source: dir + "/real", Dest: "/1/planted"}},
		{{Kind: Bind, Source: dir + "/rw", Dest: "/1"}, {Kind: Bind, Source: dir + "/real", Dest: "/1/planted/new"}},
		{{Kind: Bind, Source: dir + "/rw", Dest: "/1"}, {Kind: Bind, Source: dir + "/real", Dest: "/1/stub"}},
		{{Kind: Overlay, Source: dir + "/link", Dest: "/1"}},
		{{Kind: Symlink, Source: "x", Dest: "/1/../../../x"}},
		{{Kind: Directory, Dest: "/", Perms: 0o755}},
	} {
		_, _, err := start(t, c, append(system(), extra...), "true")
		if failed := (*MountError)(nil); !errors.As(err, &failed) {
			t.Errorf("%+v: %v", extra, err)
		}
	}
	if names, _ := os.ReadDir(dir + "/rw"); len(names) != 2 {
		t.Errorf("stubs were left: %v", names)
	}
	if names, _ := os.ReadDir(dir + "/real"); len(names) != 1 {
		t.Errorf("stubs were left: %v", names)
	}
}

// A tree that was prepared follows what happens to its sources and mount points.
func TestPreparedTreesStayTrue(t *testing.T) {
	t.Parallel()
	c := connect(t, session(t))
	dir := tempDir(t)
	replace := func(path, text string) {
		write(t, path+".new", text)
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir+"/one", "1")
	write(t, dir+"/rw/secret", "secret")
	ops := append(system(),
		Op{Kind: ReadOnlyBind, Source: dir + "/one", Dest: "/0/one"},
		Op{Kind: File, Source: dir + "/one", Dest: "/0/copy", Perms: 0o444},
		Op{Kind: Bind, Source: dir + "/rw", Dest: "/0/rw"},
		Op{Kind: HideFile, Dest: "/0/rw/secret"},
	)
	const text = "cd /.tree/0; cat one copy rw/secret 2>/dev/null"
	if got := sh(t, c, ops, text); got != "11" {
		t.Errorf("%q", got)
	}
	replace(dir+"/one", "2")
	if got := sh(t, c, ops, text); got != "22" {
		t.Errorf("after a source was replaced: %q", got)
	}
	write(t, dir+"/one", "33")
	if got := sh(t, c, ops, text); got != "3333" {
		t.Errorf("after a source was written: %q", got)
	}
	// This takes the mount that hides it away.
	replace(dir+"/rw/secret", "secret")
	if got := sh(t, c, ops, text); got != "3333" {
		t.Errorf("after a hidden file was replaced: %q", got)
	}
}

// A tree that is made ahead is begun before anybody starts an init in it, and is looked at
// again then, as each that is there.
func TestTreesMadeAhead(t *testing.T) {
	t.Parallel()
	session, dir := session(t), tempDir(t)
	c := connect(t, session)
	write(t, dir+"/one", "1")
	write(t, dir+"/lower/two", "2")
	ops := append(system(),
		Op{Kind: Overlay, Source: dir + "/lower", Dest: "/0/o"},
		Op{Kind: File, Source: dir + "/one", Dest: "/0/copy", Perms: 0o444})
	c.Prepare(NewPlan(ops))
	for { // the overlay is in the session's directory
		if found, _ := filepath.Glob(session + "/holder/*/overlay/*"); len(found) > 0 {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("no tree was begun")
		}
		runtime.Gosched()
	}
	write(t, dir+"/one", "22")
	if got := sh(t, c, ops, "cat /.tree/0/copy /.tree/0/o/two"); got != "222" {
		t.Errorf("%q", got)
	}
	absent := append(ops, Op{Kind: Bind, Source: dir + "/absent", Dest: "/0/absent"})
	c.Prepare(NewPlan(absent))
	var failed *MountError
	if _, _, err := start(t, c, absent, "true"); !errors.As(err, &failed) || failed.Index != len(ops) {
		t.Errorf("a tree that cannot be made: %v", err)
	}
}

// Two commands have two overlays of one directory, of which nothing is left.
func TestOverlaysOfTheirOwn(t *testing.T) {
	t.Parallel()
	dir, lower := session(t), tempDir(t)
	write(t, lower+"/one/f", "lower")
	c := connect(t, dir)
	layers := func() []string {
		found, _ := filepath.Glob(dir + "/holder/*/own/*/0/upper")
		return found
	}
	const text = "cd /proc/self/fd/3/ && cat f && test ! -e made && mkdir -p made/locked && echo made >f && chmod 0 made && exec sleep 1000"
	var all []*Launcher
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
	// Another plan, another client.
	two := connect(t, dir)
	if got := sh(t, two, append(ops, Op{Kind: ReadOnly, Dest: "/0"}), "cd /.tree/0/o; cat e/f; touch n; ls"); got != "upper\ne\nn\n" {
		t.Errorf("%q", got)
	}
	// Another holder: the session's state is not the process's.
	c.Close()
	two.Close()
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

func TestEndOfClient(t *testing.T) {
	t.Parallel()
	dir := session(t)
	c, other := connect(t, dir), connect(t, dir)
	l, r, err := start(t, c, system(), "echo up; exec sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	io.ReadFull(r, make([]byte, 3))
	pidfd, err := unix.PidfdOpen(l.Pid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	c.Close()
	if _, err := l.Wait(); !errors.Is(err, ErrLost) {
		t.Errorf("%v", err)
	}
	if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 60_000); n != 1 {
		t.Error("the launcher lives on")
	}
	if got := sh(t, other, system(), "echo still there"); got != "still there\n" {
		t.Errorf("%q", got)
	}
	other.Close()
	awaitEnd(dir)
	if _, err := os.Lstat(filepath.Join(dir, "holder", "u"+strconv.Itoa(os.Geteuid()), socketName)); err == nil {
		t.Error("the socket was left")
	}
}

// holderOf is the process at the other end of a connection.
func holderOf(t *testing.T, dir string) int {
	t.Helper()
	pid, err := listener(dir)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func listener(dir string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	at, err := unix.Open(filepath.Join(dir, "holder", "u"+strconv.Itoa(os.Geteuid())), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(at)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socketPath(at)}); err != nil {
		return 0, err
	}
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}

// runs reports whether a process has not ended; who has to reap it may be slow.
func runs(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	return fields[0] != "Z" && fields[0] != "X"
}

// A holder without a session has one client, nothing on a disk, and no overlays; it ends
// with its client, and the client can wait for that.
func TestAlone(t *testing.T) {
	t.Parallel()
	c, err := Connect(t.Context(), Config{Executable: self})
	if err != nil {
		t.Fatal(err)
	}
	pid := c.conn.holder.Pid
	if out := sh(t, c, system(), "echo up"); out != "up\n" {
		t.Errorf("got %q", out)
	}
	if where, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err == nil && where != "/" {
		t.Errorf("it works in %q", where)
	}
	if _, refused := errors.AsType[*MountError](c.Overlay(t.Context(), tempDir(t), false)); !refused {
		t.Error("there is an overlay without a session")
	}
	c.CloseAlone()
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has not ended, or was not waited for: %v", err)
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
