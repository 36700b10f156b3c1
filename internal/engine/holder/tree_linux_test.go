package holder

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

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

// A file that has grown since the plan is not cut.
func TestCopyOfALargeFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "f")
	for size, want := range map[int]error{maxCopy - 1: nil, maxCopy + 1: unix.EFBIG} {
		write(t, file, strings.Repeat("x", size))
		fd, err := unix.Open(file, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		content, err := (&builder{}).read(fd)
		unix.Close(fd)
		if err != want || err == nil && len(content) != size {
			t.Errorf("%d bytes: %d, %v", size, len(content), err)
		}
	}
}
