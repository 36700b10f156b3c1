package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/paths"
)

func TestOpenFile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := mustNew(t, f.options())
	for path, want := range map[string]string{
		"file": "inside", "in/file": "inside", "back/file": "inside", "/tmp/file": "scratch",
		"ro-link/file": "read-only", f.writable + "/file": "writable", "quo\"te\n-name": "odd", "bad\xffutf8": "odd",
	} {
		file, err := w.Open(path)
		if err != nil {
			t.Errorf("%q: %v", path, err)
			continue
		}
		data, err := io.ReadAll(file)
		file.Close()
		if string(data) != want || err != nil {
			t.Errorf("%q: %q, %v", path, data, err)
		}
	}
	dir, err := w.Open("dir")
	if err != nil {
		t.Fatal(err)
	}
	names, err := dir.Readdirnames(-1)
	dir.Close()
	if len(names) != 3 || err != nil {
		t.Errorf("directory: %q, %v", names, err)
	}

	file, err := w.OpenFile("dangling-in", os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o4640)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	fi, err := os.Lstat(f.root + "/dir/new")
	if err != nil || fi.Mode()&(fs.ModeSetuid|0o137) != 0 {
		t.Errorf("created through a dangling link: %v, %v", fi.Mode(), err)
	}
	if _, err := file.WriteString("x"); err != nil {
		t.Error(err)
	}
	for _, flag := range []int{os.O_WRONLY, os.O_RDWR, os.O_CREATE, os.O_TRUNC, os.O_APPEND} {
		if file, err := w.OpenFile("vendor/lib", flag, 0); !errors.Is(err, ErrReadOnlyRoot) {
			file.Close()
			t.Errorf("flag %#x in a read-only root: %v", flag, err)
		}
	}
	if _, err := w.OpenFile("a/b", os.O_CREATE|os.O_WRONLY, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing parent: %v", err)
	}
}

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	t.Parallel()
	root := tempDir(t)
	if err := syscall.Mkfifo(root+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	names := []string{"fifo"}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: root + "/sock"}); err == nil {
		names = append(names, "sock")
	}
	w := mustNew(t, Options{Root: root})
	for _, name := range names {
		for _, flag := range []int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR} {
			if file, err := w.OpenFile(name, flag, 0); err == nil {
				file.Close()
				t.Errorf("%s, flag %d: opened", name, flag)
			} else if name == "fifo" && !errors.Is(err, ErrNotRegular) {
				t.Errorf("%s, flag %d: %v", name, flag, err)
			}
		}
	}
	w = mustNew(t, Options{Root: root, Readable: []string{"/dev"}})
	if _, err := w.Open("/dev/null"); !errors.Is(err, ErrNotRegular) {
		t.Errorf("device: %v", err)
	}
}

// swapper exchanges two names until stop is called. The window between them is
// covered, too: an exchange is three renames.
func swapper(t *testing.T, a, b string) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		spare := a + ".spare"
		for {
			select {
			case <-done:
				return
			default:
			}
			for _, mv := range [][2]string{{a, spare}, {b, a}, {spare, b}} {
				if err := os.Rename(mv[0], mv[1]); err != nil {
					t.Errorf("swap: %v", err)
					return
				}
			}
			runtime.Gosched()
		}
	})
	return sync.OnceFunc(func() { close(done); wg.Wait() })
}

// While a directory and a symlink to outside change places, nothing outside is
// opened. The control checks and then opens by path, and must get outside, or
// the race was never run.
func TestOpenWhileSwapped(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tree(t, f.root, map[string]string{"target/file": "inside", "decoy": "-> ../outside"})
	w := mustNew(t, f.options())
	stop := swapper(t, f.root+"/target", f.root+"/decoy")
	defer stop()

	escaped := 0
	const most = 200000
	for n := 0; n < most && (n < 3000 || escaped == 0); n++ {
		if p, err := w.ResolveForRead("target/file"); err == nil {
			if !paths.Inside(f.root, p) {
				t.Fatalf("resolved to %q", p)
			}
			if data, err := os.ReadFile(p); err == nil && string(data) == "secret" {
				escaped++ // the control: check, then open by path
			}
		}
		file, err := w.Open("target/file")
		if err == nil {
			data, err := io.ReadAll(file)
			file.Close()
			if string(data) != "inside" || err != nil {
				t.Fatalf("opened %q, %v", data, err)
			}
		} else if !errors.Is(err, ErrOutside) && !errors.Is(err, ErrChanged) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.EINVAL) {
			t.Fatalf("open: %v", err)
		}
		file, err = w.OpenFile("target/new", os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			file.Close()
		}
	}
	stop()
	if escaped == 0 {
		t.Errorf("the control never escaped in %d rounds: the race was not run", most)
	}
	if _, err := os.Lstat(filepath.Join(f.outside, "new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was created outside: %v", err)
	}
}

// A swap does not reach a read-only root nested in a writable one either, which
// os.Root would follow.
func TestOpenWhileSwappedIntoReadOnlyRoot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tree(t, f.root, map[string]string{"target/lib": "mine", "decoy": "-> vendor"})
	w := mustNew(t, f.options())
	stop := swapper(t, f.root+"/target", f.root+"/decoy")
	defer stop()
	for range 2000 {
		if file, err := w.OpenFile("target/lib", os.O_WRONLY|os.O_TRUNC, 0); err == nil {
			file.Close()
		}
	}
	stop()
	if data, err := os.ReadFile(f.root + "/vendor/lib"); string(data) != "vendored" || err != nil {
		t.Errorf("read-only root was written: %q, %v", data, err)
	}
}
