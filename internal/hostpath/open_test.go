package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// place makes directories, files and symlinks ("name -> target") in a new directory.
func place(t *testing.T, names ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		name, target, link := strings.Cut(name, " -> ")
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch {
		case err != nil:
		case link:
			err = os.Symlink(strings.ReplaceAll(target, "DIR", dir), path)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		default:
			err = os.WriteFile(path, []byte("old"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestResolve(t *testing.T) {
	t.Parallel()
	dir := place(t, "ws/sub/", "ws/file", "ws/planted -> ../outside", "ws/sub/also -> /", "ws/planted-file -> DIR/outside/file", "ws/gone -> nowhere", "ws/in -> sub",
		"outside/file", "home/ws -> ../ws", "home/x -> DIR/mnt/x", "mnt/x/", "home/loop -> loop", "home/file -> ../mnt/x/f", "ws-other/link -> ../mnt")
	writable := func() []string { return []string{dir + "/ws", dir + "/not-there"} }
	for path, want := range map[string]string{
		"ws/sub/r.json":             "ws/sub/r.json",
		"ws/file":                   "ws/file",
		"ws/none/r.json":            "ws/none/r.json",
		"home/ws/sub/r.json":        "ws/sub/r.json", // the user's own
		"home/x/r.json":             "mnt/x/r.json",
		"home/x/../r.json":          "mnt/r.json", // as the kernel has it
		"home/file":                 "mnt/x/f",
		"ws-other/link/x":           "mnt/x",
		"ws/sub/../../mnt":          "mnt",
		"ws/planted":                "",
		"ws/planted/r.json":         "",
		"ws/planted-file":           "",
		"ws/gone":                   "",
		"ws/in/r.json":              "", // nor within it: it may be another one in a moment
		"ws/sub/also/tmp":           "",
		"home/ws/planted/r.json":    "",
		"mnt/../ws/planted/r":       "",
		"home/loop":                 "",
		"ws/file/beneath":           "",
		"ws/planted/../ws/sub/file": "",
	} {
		for _, from := range []struct{ base, path string }{{dir, path}, {dir + "/home/ws/..", path}, {"/nonexistent", filepath.Join(dir, "/") + "/" + path}} {
			got, err := Resolve(from.base, from.path, writable)
			if want == "" {
				if err == nil {
					t.Errorf("%s from %s: %s", from.path, from.base, got)
				}
				continue
			}
			if err != nil || got != dir+"/"+want {
				t.Errorf("%s from %s: %s, %v; want %s", from.path, from.base, got, err, want)
			}
		}
		// The control: without such directories all links are the user's.
		if got, err := Resolve(dir, path, nil); err != nil && strings.Contains(path, "planted") {
			t.Errorf("%s: %s, %v", path, got, err)
		}
	}
	// Where the caller is already, nothing is asked of the way.
	if got, err := Resolve(dir+"/ws/planted", "r.json", writable); err != nil || got != dir+"/outside/r.json" {
		t.Errorf("%s, %v", got, err)
	}
	_, err := Resolve(dir, "ws/planted/r.json", writable)
	if err == nil || !strings.Contains(err.Error(), `the symlink "`+dir+`/ws/planted" lies where commands can write`) {
		t.Error(err)
	}
}

// A link of another user's is not followed, by root least of all.
func TestResolveOthersLinks(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a link to another user")
	}
	dir := place(t, "a/", "link -> a", "theirs -> a")
	if err := os.Lchown(dir+"/theirs", 4242, 4242); err != nil {
		t.Fatal(err)
	}
	if got, err := Resolve(dir, "link/f", nil); err != nil || got != dir+"/a/f" {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := Resolve(dir, "theirs/f", nil); err == nil || !strings.Contains(err.Error(), "belongs to user 4242") {
		t.Errorf("%s, %v", got, err)
	}
}

func TestDir(t *testing.T) {
	t.Parallel()
	dir := place(t, "ws/file", "ws/link -> ../outside", "outside", "ws/sub/")
	if err := errors.Join(os.Link(dir+"/outside", dir+"/ws/hard"), unix.Mkfifo(dir+"/ws/fifo", 0o644)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{"ws/file": unix.ENOTDIR, "none": fs.ErrNotExist, "ws/fifo": unix.ENOTDIR} {
		if d, err := OpenDir(dir, path, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v, %v", path, d, err)
		}
	}
	d, err := OpenDir(dir, "ws", func() []string { return []string{dir + "/ws"} })
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, name := range []string{"file", "link", "hard", "fifo", "sub"} {
		if f, err := d.Create(name, 0o600); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	for _, name := range []string{"file", "link", "hard", "fifo"} {
		if err := d.Put(TempName(), name, []byte("new"), 0o640, nil); err != nil {
			t.Error(err)
		}
		text, err := os.ReadFile(dir + "/ws/" + name)
		if err != nil || string(text) != "new" {
			t.Errorf("%s: %s, %v", name, text, err)
		}
		if st, err := d.Lstat(name); err != nil || st.Mode != unix.S_IFREG|0o640 {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	if text, err := os.ReadFile(dir + "/outside"); err != nil || string(text) != "old" {
		t.Errorf("%s, %v", text, err)
	}
	if err := d.Remove("file"); err != nil {
		t.Error(err)
	}
	if _, err := d.Lstat("file"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// OpenOrMake makes nothing behind a link, nor follows one.
func TestOpenOrMake(t *testing.T) {
	t.Parallel()
	dir := place(t, "ws/file", "ws/link -> ../outside", "ws/gone -> ../outside/gone", "outside/there/")
	for path, want := range map[string]error{"ws/a/b": nil, "ws/a/c": nil, "ws/link": unix.ELOOP, "ws/gone": unix.ELOOP, "ws/link/there": unix.ELOOP, "ws/link/new/deep": unix.ELOOP, "ws/gone/new": unix.ELOOP, "ws/file/x": unix.ENOTDIR} {
		for suffix, flag := range map[string]int{"": unix.O_RDONLY, "-dir/deep": unix.O_RDONLY | unix.O_DIRECTORY} {
			if want != nil {
				suffix = ""
			}
			fd, err := OpenOrMake(filepath.Join(dir, path+suffix), flag|unix.O_CLOEXEC)
			if err != want {
				t.Errorf("%s%s: %v, want %v", path, suffix, err, want)
			}
			if err == nil {
				var st unix.Stat_t
				if err := unix.Fstat(fd, &st); err != nil || uint32(st.Mode) != map[bool]uint32{true: unix.S_IFREG | 0o600, false: unix.S_IFDIR | 0o700}[suffix == ""] {
					t.Errorf("%s%s: %#o, %v", path, suffix, st.Mode, err)
				}
				unix.Close(fd)
			}
		}
	}
	if info, err := os.Stat(dir + "/ws/a"); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("what was made above: %v, %v", info, err)
	}
	if entries, err := os.ReadDir(dir + "/outside"); err != nil || len(entries) != 1 {
		t.Errorf("outside changed: %v, %v", entries, err)
	}
}

// Nor does it while another puts a link there and removes it.
func TestOpenOrMakeRaced(t *testing.T) {
	t.Parallel()
	dir := place(t, "ws/", "outside/")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20000 {
			unix.Symlink(dir+"/outside/made", dir+"/ws/new")
			unix.Unlink(dir + "/ws/new")
		}
	}()
	for made := 0; ; {
		if fd, err := OpenOrMake(dir+"/ws/new", unix.O_WRONLY|unix.O_CLOEXEC); err == nil {
			made++
			unix.Close(fd)
		}
		select {
		case <-done:
			if _, err := os.Lstat(dir + "/outside/made"); made == 0 || !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("made %d, outside: %v", made, err)
			}
			return
		default:
		}
	}
}

// While another swaps a directory for a link, nothing is ever reached by that.
func TestOpenDirRaced(t *testing.T) {
	t.Parallel()
	dir := place(t, "ws/a/b/", "ws/spare -> DIR/outside", "outside/b/")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 4000 {
			unix.Rename(dir+"/ws/a", dir+"/ws/real")
			unix.Rename(dir+"/ws/spare", dir+"/ws/a")
			unix.Rename(dir+"/ws/a", dir+"/ws/spare")
			unix.Rename(dir+"/ws/real", dir+"/ws/a")
		}
	}()
	var outside unix.Stat_t
	if err := unix.Stat(dir+"/outside/b", &outside); err != nil {
		t.Fatal(err)
	}
	for opened := 0; ; {
		d, err := OpenDir(dir, "ws/a/b", func() []string { return []string{dir + "/ws"} })
		if err == nil {
			opened++
			st, err := d.Lstat(".")
			d.Close()
			if err != nil || st.Ino == outside.Ino && st.Dev == outside.Dev {
				t.Fatalf("%v, %v", st, err)
			}
		}
		select {
		case <-done:
			if opened > 0 {
				return
			}
		default:
		}
	}
}
