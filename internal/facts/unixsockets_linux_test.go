package facts

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// serve binds a socket below a directory. What a bound name may have is short, and the directory of a
// test is not: it is bound by a path that the name does not lead to for anybody else, unless absolute.
func serve(t *testing.T, dir, name string, absolute bool) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, name)
	if !absolute {
		fd, err := unix.Open(filepath.Dir(at), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		at = "/proc/self/fd/" + strconv.Itoa(fd) + "/" + filepath.Base(name)
	}
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	t.Cleanup(func() { l.Close() })
}

// Sockets of servers are hidden wherever they lie, however they came there. Each of these lies deeper than
// what is searched where no pattern asks for it.
func TestSocketsAreHiddenAtAnyDepth(t *testing.T) {
	t.Parallel()
	base, err := os.MkdirTemp("/tmp", "b") // short enough for the name of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	for name, c := range map[string]struct {
		from     string // where the server bound it
		absolute bool
		then     func(dir string) error
		want     []string
	}{
		"at its name":     {"w/a/b/c/d/e/s", true, nil, []string{"a/b/c/d/e/s"}},
		"by another name": {"w/a/b/c/d/e/s", false, nil, []string{"a/b/c/d/e/s"}},
		"a hard link": {"w/a/b/c/d/e/s", true, func(dir string) error { return os.Link(dir+"/w/a/b/c/d/e/s", dir+"/w/a/b/c/d/e/t") },
			[]string{"a/b/c/d/e/s", "a/b/c/d/e/t"}},
		"a link that leads elsewhere since": {"w/link/d/e/s", true, func(dir string) error {
			if err := os.MkdirAll(dir+"/w/x/y/z", 0o755); err != nil {
				return err
			}
			if err := os.Rename(dir+"/w/link", dir+"/w/x/y/z/was"); err != nil {
				return err
			}
			return os.MkdirAll(dir+"/w/link/d/e", 0o755)
		}, []string{"x/y/z/was/d/e/s"}},
		"another socket at its name": {"w/a/b/c/d/e/s", true, func(dir string) error {
			if err := os.Rename(dir+"/w/a/b/c/d/e", dir+"/w/a/b/c/d/moved"); err != nil {
				return err
			}
			if err := os.Mkdir(dir+"/w/a/b/c/d/e", 0o755); err != nil {
				return err
			}
			return unix.Mknod(dir+"/w/a/b/c/d/e/s", unix.S_IFSOCK|0o600, 0)
		}, []string{"a/b/c/d/e/s", "a/b/c/d/moved/s"}},
		"a directory that cannot be searched in its place": {"w/a/b/c/d/e/s", true, func(dir string) error {
			if err := os.Rename(dir+"/w/a/b", dir+"/w/moved"); err != nil {
				return err
			}
			return os.Mkdir(dir+"/w/a/b", 0)
		}, []string{"moved/c/d/e/s"}},
		"a hard link from outside": {"o/s", true, func(dir string) error {
			if err := os.MkdirAll(dir+"/w/a/b/c/d", 0o755); err != nil {
				return err
			}
			return os.Link(dir+"/o/s", dir+"/w/a/b/c/d/s")
		}, []string{"a/b/c/d/s"}},
		"by a link that leads out since": {"w/link/d/e/s", true, func(dir string) error {
			if err := os.Rename(dir+"/w/link/d", dir+"/w/moved"); err != nil {
				return err
			}
			return errors.Join(os.Remove(dir+"/w/link"), os.Symlink("/nonexistent", dir+"/w/link"))
		}, []string{"moved/e/s"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp(base, "")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(dir+"/w", 0o755); err != nil {
				t.Fatal(err)
			}
			serve(t, dir, c.from, c.absolute)
			if c.then != nil {
				if err := c.then(dir); err != nil {
					t.Fatal(err)
				}
			}
			tr := tree{base: dir, project: dir + "/w"}
			out, err := tr.machine(t).resolve(t.Context(), "fast", view.Definition{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range out.Spec.Table {
				if e.Access == shared.Hidden && e.Why == view.OriginSocket {
					got = append(got, e.Path)
				}
			}
			for _, p := range c.want {
				if !slices.Contains(got, dir+"/w/"+p) {
					t.Errorf("%s is not hidden: %q", p, got)
				}
			}
		})
	}
}

// The kernel's list, of which a part would hide a server, is whole also where it takes many messages.
func TestUnixSocketsAreListed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const many = 700
	for i := range many {
		serve(t, dir, strconv.Itoa(i), false)
	}
	list, err := unixSockets()
	if err != nil {
		t.Fatal(err)
	}
	inodes := map[uint32]bool{}
	for _, s := range list {
		inodes[s.inode] = true
	}
	for i := range many {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(dir, strconv.Itoa(i)), &st); err != nil || !inodes[uint32(st.Ino)] {
			t.Fatalf("%d: %v, in a list of %d", i, err, len(list))
		}
	}
}

func TestMountOf(t *testing.T) {
	t.Parallel()
	// Mount 20 is older than the root, as one that an initial system moves there. Mount 26 covers 27.
	list := parseMounts(`20 21 0:5 / /run rw - tmpfs none rw
21 1 0:1 / / rw - ext4 none rw
22 21 0:2 /@home /home rw - btrfs none rw
23 21 0:2 /@home/u/w /srv/w rw - btrfs none rw
24 22 0:3 / /home/u/w/tmp rw - tmpfs none rw
25 23 0:4 /x /srv/w rw - ext4 none rw
27 21 0:6 / /covered/deep rw - tmpfs none rw
26 21 0:7 /y /covered rw - ext4 none rw
28 21 0:8 /z\040 /a\040b"c rw - ext4 none rw
`)
	for p, want := range map[string]string{
		"/etc/x": "/etc/x", "/home": "/@home", "/home/u/w/a": "/@home/u/w/a", "/home/u/w/tmp/s": "/s", "/homes": "/homes", "/srv/w/s": "/x/s",
		"/run/s": "/s", "/covered/deep/s": "/y/deep/s", `/a b"c/s`: "/z /s",
	} {
		if got := mountOf(list, p).in(p); got != want {
			t.Errorf("%s: %s, want %s", p, got, want)
		}
	}
}
