package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
)

func TestNewErrorsNameTheField(t *testing.T) {
	t.Parallel()
	base := tempDir(t)
	tree(t, base, map[string]string{"proj": "dir", "file": "x", "other": "dir", "loop": "-> loop", "gone": "-> nowhere"})
	if err := syscall.Mkfifo(base+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	root := base + "/proj"
	for _, tt := range []struct {
		name   string
		o      Options
		prefix string
		err    error
	}{
		{"no root", Options{}, "root: ", fs.ErrInvalid},
		{"missing root", Options{Root: base + "/missing"}, "root: ", fs.ErrNotExist},
		{"root is a file", Options{Root: base + "/file"}, "root: ", syscall.ENOTDIR},
		{"root with NUL", Options{Root: root + "\x00"}, "root: ", fs.ErrInvalid},
		{"missing readable", Options{Root: root, Readable: []string{base + "/other", base + "/missing"}}, "readable[1]: ", fs.ErrNotExist},
		{"empty readable", Options{Root: root, Readable: []string{""}}, "readable[0]: ", fs.ErrInvalid},
		{"dangling readable", Options{Root: root, Readable: []string{base + "/gone"}}, "readable[0]: ", fs.ErrNotExist},
		{"fifo readable", Options{Root: root, Readable: []string{base + "/fifo"}}, "readable[0]: ", hostpath.ErrIrregular},
		{"missing writable", Options{Root: root, Writable: []string{"missing"}}, "writable[0]: ", fs.ErrNotExist},
		{"system writable", Options{Root: root, Writable: []string{"/etc"}}, "writable[0]: ", ErrRefusedRoot},
		{"loop", Options{Root: root, Writable: []string{base + "/loop"}}, "writable[0]: ", nil},
		{"both accesses", Options{Root: root, Readable: []string{base + "/other"}, Writable: []string{base + "/other"}}, "writable[0]: ", fs.ErrInvalid},
		{"readable project", Options{Root: root, Readable: []string{"."}}, "readable[0]: ", fs.ErrInvalid},
		{"relative alias", Options{Root: root, TempAlias: "tmp"}, "temp_alias: ", fs.ErrInvalid},
		{"alias is a file", Options{Root: root, TempAlias: base + "/file"}, "temp_alias: ", syscall.ENOTDIR},
		{"relative home", Options{Root: root, Home: "home"}, "home: ", fs.ErrInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.o.Home == "" {
				tt.o.Home = "/nonexistent"
			}
			w, err := New(tt.o)
			if err == nil || w != nil || !strings.HasPrefix(err.Error(), tt.prefix) || tt.err != nil && !errors.Is(err, tt.err) {
				t.Errorf("got %v; want %q... that is %v", err, tt.prefix, tt.err)
			}
		})
	}
}

func TestRoots(t *testing.T) {
	t.Parallel()
	base := tempDir(t)
	tree(t, base, map[string]string{"proj": "dir", "ro": "dir", "rw": "dir", "tmp": "dir", "link": "-> proj", "home/file": "x"})
	w := mustNew(t, Options{
		Root: base + "/link", Readable: []string{"/usr", base + "/ro", "~/file", base + "/ro"},
		Writable: []string{"../rw"}, TempAlias: base + "/tmp", Home: base + "/home",
	})
	var got []string
	for _, r := range w.Roots() {
		access := " ro "
		if r.Writable {
			access = " rw "
		}
		got = append(got, r.Field+access+strings.TrimPrefix(r.Path, base))
	}
	want := "root rw /proj, readable[0] ro /usr, readable[1] ro /ro, readable[2] ro /home/file, readable[3] ro /ro, writable[0] rw /rw, temp_alias rw /tmp"
	if strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
	if w.Root() != base+"/proj" || w.home != base+"/home" || w.TempAlias() != base+"/tmp" {
		t.Error(w.Root(), w.home, w.TempAlias())
	}
}

func TestOwner(t *testing.T) {
	t.Parallel()
	root := tempDir(t)
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	if uid == 0 {
		uid, gid = 12345, 23456
		if err := os.Chown(root, int(uid), int(gid)); err != nil {
			t.Fatal(err)
		}
	}
	u, g := mustNew(t, Options{Root: root}).Owner()
	if u != uid || runtime.GOOS == "linux" && g != gid {
		t.Errorf("got %d:%d, want %d:%d", u, g, uid, gid)
	}
}

func TestRootGivesUp(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	err := withTimeout(time.Millisecond, func() error { <-release; return nil })
	close(release)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	if err := withTimeout(time.Hour, func() error { return fs.ErrPermission }); err != fs.ErrPermission {
		t.Error(err)
	}
}

// spelledOnMac returns one spelling of each directory of macOS, as the kernel has one inode: it ignores
// case, /tmp, /var and /etc are links into /private, and the data volume is also mounted elsewhere.
func spelledOnMac(p string) string {
	p = strings.TrimPrefix(strings.ToLower(p), "/system/volumes/data/")
	p = strings.TrimPrefix("/"+strings.TrimPrefix(p, "/"), "/private/")
	return "/" + strings.TrimPrefix(p, "/")
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	names := func(string, string) bool { return false }
	mac := func(p, q string) bool { return spelledOnMac(p) == spelledOnMac(q) }
	for _, tt := range []struct {
		same       func(string, string) bool
		path, home string
		refused    bool
	}{
		{names, "/", "/home/u", true},
		{names, "/etc", "/home/u", true},
		{names, "/var", "", true},
		{names, "/proc", "", true},
		{names, "/root", "", true},
		{names, "/lib64", "", true},
		{names, "/tmp", "", true},
		{names, "/home", "", true},
		{names, "/home/u", "", true},
		{names, "/home/other", "/home/u", true},
		{names, "/data/u", "/data/u", true},
		{names, "/data", "/data/u", true},
		{names, "/home/u/proj", "/home/u", false},
		{names, "/root/proj", "/root", false},
		{names, "/tmp/proj", "/home/u", false},
		{names, "/opt/proj", "", false},
		{names, "/etcetera", "", false},
		{names, "/data/u-evil", "/data/u", false},
		{names, "/Users/u", "", true},
		{names, "/private/tmp", "", false},
		{mac, "/Users", "", true},
		{mac, "/Users/u", "", true},
		{mac, "/users/U", "", true},
		{mac, "/System/Volumes/Data/Users/u", "", true},
		{mac, "/System/Volumes/Data", "", true},
		{mac, "/System/Volumes/Data/private/tmp", "", true},
		{mac, "/private", "", true},
		{mac, "/private/tmp", "", true},
		{mac, "/private/var", "", true},
		{mac, "/private/etc", "", true},
		{mac, "/TMP", "", true},
		{mac, "/Volumes", "", true},
		{mac, "/Volumes/x/home", "/volumes/X/home", true},
		{mac, "/Volumes/x", "/volumes/X/home", true},
		{mac, "/private/tmp/proj", "", false},
		{mac, "/Users/u/proj", "/Users/u", false},
		{mac, "/privateer", "", false},
	} {
		if why := refusal(tt.path, tt.home, tt.same); (why != "") != tt.refused {
			t.Errorf("%q (home %q): %q, want refused: %v", tt.path, tt.home, why, tt.refused)
		}
	}
}

func TestNewRefusesRoots(t *testing.T) {
	t.Parallel()
	base := tempDir(t)
	tree(t, base, map[string]string{"home/proj": "dir", "to-home": "-> home", "to-etc": "-> /etc", "linked": "-> home", "homes/me": "-> ../home"})
	for path, home := range map[string]string{
		"/": "", "/etc": "", "/usr": "", "/tmp": "", "/bin": "", "/lib": "", "/usr/bin/../../etc": "",
		base + "/to-etc":  "",
		base + "/home":    base + "/home",
		base + "/to-home": base + "/home",
		base + "/linked":  base + "/to-home",
		base:              base + "/home",
		base + "/homes":   base + "/homes/me",
		"~":               base + "/home",
	} {
		if home == "" {
			home = "/nonexistent"
		}
		_, err := New(Options{Root: path, Home: home})
		if !errors.Is(err, ErrRefusedRoot) || !strings.Contains(err.Error(), "name a project directory") {
			t.Errorf("%q: %v", path, err)
		}
	}
	// The identity counts, not only the name: /lib is often /usr/lib.
	for _, dir := range []string{"/lib", "/bin", "/sbin", "/lib64"} {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil || real == dir {
			continue
		}
		if refusal(real, "", func(string, string) bool { return false }) != "" {
			t.Errorf("%q is on the list itself", real)
		}
		if _, err := New(Options{Root: real, Home: "/nonexistent"}); !errors.Is(err, ErrRefusedRoot) {
			t.Errorf("%q: %v", real, err)
		}
	}
	// Readable roots may be system directories.
	mustNew(t, Options{Root: base + "/home/proj", Home: base + "/home", Readable: []string{"/usr", "/etc", base + "/home"}})
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	base := tempDir(t)
	tree(t, base, map[string]string{
		"repo/.git/HEAD": "ref: refs/heads/main", "repo/a/b/c": "dir", "repo/link": "-> a/b",
		"wt/.git": "gitdir: /x", "wt/sub": "dir",
		"odd/.git": "-> nowhere", "odd/sub": "dir",
		"plain/sub": "dir", "plain/file": "x",
		"into": "-> repo/a/b", "all": "-> .",
	})
	for dir, want := range map[string]string{
		"repo": "repo", "repo/a/b/c": "repo", "repo/link/c": "repo", "into": "repo",
		"wt/sub": "wt", "odd/sub": "odd/sub", "plain/sub": "plain/sub", "plain/sub/..": "plain",
	} {
		if got, err := Discover(filepath.Join(base, dir), "/nonexistent/home"); got != filepath.Join(base, want) || err != nil {
			t.Errorf("%q: got %q, %v; want %q", dir, got, err, want)
		}
	}
	for dir, want := range map[string][2]string{
		"repo/a": {"repo", "repo"}, "repo/link/c": {"repo", "repo"}, "into": {"into", "repo/a/b"}, "into/c": {"into/c", "repo/a/b/c"},
		"all/repo": {"all/repo", "repo"}, "all/repo/a/b": {"all/repo", "repo"}, "all/repo/link/c": {"all/repo/link/c", "repo/a/b/c"}, "plain": {"repo", "repo"}, "none": {"repo", "repo"},
	} {
		spelled, of := SpellingOf(filepath.Join(base, dir), base+"/repo")
		if spelled != filepath.Join(base, want[0]) || of != filepath.Join(base, want[1]) {
			t.Errorf("%q is %q of %q, want %q", dir, spelled, of, want)
		}
	}
	if got, err := Discover(".", ""); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a directory that depends on the process's: %q, %v", got, err)
	}
	if got, err := Discover(base+"/repo/a", base+"/repo"); got != base+"/repo/a" || err != nil {
		t.Errorf("in a home that is kept in git: %q, %v", got, err)
	}
	if _, err := Discover(base+"/missing", ""); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Discover(base+"/plain/file", ""); !errors.Is(err, syscall.ENOTDIR) {
		t.Error(err)
	}
	if _, err := Discover("a\x00b", ""); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
}

// A .git that a third user put above the directory does not widen the root.
func TestDiscoverPassesOverForeignGit(t *testing.T) {
	t.Parallel()
	base := tempDir(t)
	tree(t, base, map[string]string{"shared/.git": "dir", "shared/mine": "dir"})
	if got := gitTop(base+"/shared/mine", uint32(os.Geteuid())); got != base+"/shared" {
		t.Errorf("control: got %q", got)
	}
	if os.Geteuid() != 0 {
		t.Log("only root can give a .git away; root's run shows the refusal")
		return
	}
	if err := os.Chown(base+"/shared/.git", 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if got, err := Discover(base+"/shared/mine", ""); got != base+"/shared/mine" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	// Whatever it leads to as a symlink.
	tree(t, base, map[string]string{"led/mine": "dir", "led/.git": "-> /etc"})
	if err := os.Lchown(base+"/led/.git", 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if got, err := Discover(base+"/led/mine", ""); got != base+"/led/mine" || err != nil {
		t.Errorf("a symlink: got %q, %v", got, err)
	}
	// Unless it is the owner of the directory, whose project it then is.
	if err := os.Chown(base+"/shared/mine", 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if got, err := Discover(base+"/shared/mine", ""); got != base+"/shared" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// What commands could write in another directory counts up to the first one that is no workspace. The
// owner of a directory trusts the .git in it, whoever owns the project.
func TestOuter(t *testing.T) {
	t.Parallel()
	base := tempDir(t)
	for _, dir := range []string{"/.git", "/home/.git", "/home/a/.git", "/home/a/b/c/.git", "/home/a/b/c/d"} {
		if err := os.MkdirAll(base+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	outer := func(home string) []string {
		w, err := New(Options{Root: base + "/home/a/b/c/d", Home: home})
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(w.Outer(), func(p string) bool { return !paths.Inside(base, p) })
	}
	if got, want := outer(base+"/home"), []string{base + "/home/a/b/c", base + "/home/a"}; !slices.Equal(got, want) {
		t.Errorf("in a home: %q, want %q", got, want)
	}
	if os.Getuid() == 0 {
		if err := errors.Join(os.Chown(base+"/home/a/b", 1234, -1), os.Chown(base+"/home/a/.git", 1234, -1)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := outer(""), []string{base + "/home/a/b/c", base + "/home/a", base + "/home", base}; !slices.Equal(got, want) {
		t.Errorf("without a home: %q, want %q", got, want)
	}
}
