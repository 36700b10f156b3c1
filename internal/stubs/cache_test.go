package stubs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return st.Ino
}

func (s scene) kept(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(s.cache + "/*")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// used holds and releases stubs by a process of its own.
func (s scene) used(t *testing.T, names ...string) map[string]uint64 {
	t.Helper()
	r := New(s.cache)
	defer r.Close()
	h := s.hold(r, names...)
	for p, err := range h.Unheld {
		t.Errorf("%s: %v", p, err)
	}
	inodes := map[string]uint64{}
	for _, w := range s.wanted(names...) {
		inodes[w.Path] = inode(t, w.Path)
	}
	h.Release()
	return inodes
}

func TestStubsComeBack(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	names := []string{"a", "file:b", "c/d/e", "file:c/f"}
	first := s.used(t, names...)
	s.expect(t)
	if len(s.kept(t)) != 6 {
		t.Errorf("kept: %q", s.kept(t))
	}
	for path, ino := range s.used(t, names...) {
		if first[path] != ino {
			t.Errorf("%s is another", path)
		}
	}
	s.expect(t)
}

// What was changed is no stub any more, wherever it was when it was.
func TestCacheKeepsWhatIsPristine(t *testing.T) {
	t.Parallel()
	const name, file = "name", "file:name"
	for _, tt := range []struct {
		what, stub string
		// change is done with the descriptor of the stub that is on the cache.
		change func(fd int, cached string) error
		// after is what the next release leaves.
		after []string
	}{
		{"put into", name, func(fd int, _ string) error {
			return errors.Join(unix.Fchmod(fd, 0o755), unix.Mkdirat(fd, "work", 0o755))
		}, []string{"name", "name/work"}},
		{"mode", name, func(fd int, _ string) error { return unix.Fchmod(fd, 0o700) }, nil},
		{"mode of a file", file, func(fd int, _ string) error { return unix.Fchmod(fd, 0o666) }, nil},
		{"written", file, func(_ int, cached string) error { return os.WriteFile(cached, []byte("work"), 0) }, []string{"name"}},
		{"linked", file, func(_ int, cached string) error { return os.Link(cached, cached+"-2") }, nil},
		{"exchanged for a directory", file, func(_ int, cached string) error {
			if err := os.Remove(cached); err != nil {
				return err
			}
			return os.Mkdir(cached, 0o755)
		}, nil},
		{"exchanged for a symlink", name, func(_ int, cached string) error {
			if err := os.Remove(cached); err != nil {
				return err
			}
			return os.Symlink("/etc", cached)
		}, nil},
	} {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			first := s.used(t, tt.stub)[s.tree+"/name"]
			kept := s.kept(t)
			if len(kept) != 1 || inode(t, kept[0]) != first {
				t.Fatalf("kept: %q", kept)
			}
			fd, err := unix.Open(kept[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd) // so that no other gets its inode
			if err := tt.change(fd, kept[0]); err != nil {
				t.Fatal(err)
			}
			if got := s.used(t, tt.stub)[s.tree+"/name"]; (got == first) != (tt.after != nil) {
				t.Errorf("is the stub of before: %t", got == first)
			}
			s.expect(t, tt.after...)
		})
	}
}

// What a command has opened in one directory never comes to lie in another one,
// nor in one that has the old one's name, or its inode.
func TestCacheKnowsTheDirectory(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	seen := map[uint64]string{}
	for i := range 300 {
		name := fmt.Sprintf("%d", i%200)
		if i >= 200 {
			if err := os.RemoveAll(s.tree + "/" + name); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(s.tree+"/"+name, 0o755); err != nil {
			t.Fatal(err)
		}
		for path, ino := range s.used(t, name+"/x", "file:"+name+"/y") {
			if before, ok := seen[ino]; ok {
				t.Errorf("%s has been %s", path, before)
			}
			seen[ino] = path
		}
	}
	for i := range 200 {
		if err := os.Rename(fmt.Sprintf("%s/%d", s.tree, i), fmt.Sprintf("%s/moved%d", s.tree, i)); err != nil {
			t.Fatal(err)
		}
	}
	for path, ino := range s.used(t, "moved1/x", "file:moved2/y") {
		if before := seen[ino]; filepath.Base(before) != filepath.Base(path) {
			t.Errorf("%s does not come back with its directory", path)
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r := New(s.cache)
	defer r.Close()
	var names []string
	for i := range capacity/2 + 1 {
		dir := fmt.Sprintf("%d", i)
		if err := os.Mkdir(s.tree+"/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
		names = append(names, dir+"/x", "file:"+dir+"/y")
	}
	s.hold(r, names[:2]...).Release()
	work := s.kept(t)[0] + "/work"
	if err := errors.Join(os.Chmod(filepath.Dir(work), 0o755), os.Mkdir(work, 0o755)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.hold(r, names...).Release()
		if n := len(s.kept(t)); n < capacity/4 || n > capacity {
			t.Errorf("%d are kept", n)
		}
	}
	for _, f := range s.files(t) {
		if filepath.Dir(f) != "." && f != "0/x" && f != "0/x/work" {
			t.Errorf("%s is left", f)
		}
	}
	if _, err := os.Stat(s.tree + "/0/x/work"); err != nil {
		t.Errorf("what was put into a stub: %v", err)
	}
}

func TestCacheIsPrivate(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.used(t, "a", "file:b")
	if err := os.Chmod(s.cache, 0o777); err != nil {
		t.Fatal(err)
	}
	before := s.kept(t)
	first := inode(t, before[0])
	for path, ino := range s.used(t, "a", "file:b", "c") {
		if ino == first {
			t.Errorf("%s came from there", path)
		}
	}
	s.expect(t)
	if got := s.kept(t); !slices.Equal(got, before) {
		t.Errorf("kept: %q", got)
	}
}

func TestOwnedAs(t *testing.T) {
	t.Parallel()
	me := unix.Stat_t{Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid())}
	shared := unix.Stat_t{Uid: me.Uid, Gid: me.Gid + 1, Mode: unix.S_ISGID}
	grouped := unix.Stat_t{Uid: me.Uid, Gid: shared.Gid}
	for _, tt := range []struct {
		name       string
		st, parent unix.Stat_t
		want       bool
	}{
		{"mine", me, me, true},
		{"of another group", grouped, me, false},
		{"in a directory of a group", grouped, shared, true},
		{"not in a directory of a group", me, shared, false},
		{"another's", unix.Stat_t{Uid: me.Uid + 1, Gid: me.Gid}, me, false},
	} {
		if got := ownedAs(&tt.st, &tt.parent); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}
