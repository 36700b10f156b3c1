//go:build unix

// Package scratch makes a command's own directories, for engines without mounts: HOME and TMPDIR
// name them, in place of the home and of /tmp.
//
// The promise: the next engine that makes a directory there removes what a killed engine left, when
// it is a minute old. It never removes what a living engine, or another user, has made.
//
// The limits: without file locks, what is left stays.
package scratch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/shared"
)

// A Dir is a directory of the caller's that is locked while this process lives, or until Remove. A user
// for whom root works owns only what Make makes, and cannot put a symlink in its place.
type Dir struct {
	Path string
	user *shared.User
	top  int
}

// begins is how a name begins, before the engine's. Directories for sockets begin with
// wire.TempDirPrefix, and package dial sweeps those of engines.
const begins = ".sbxhost-"

// young is far longer than it takes to lock a new directory.
const young = time.Minute

var sweepOnce sync.Map // by parent and engine: once in each process

// TempDir is that of temporary files, or /tmp if another user could exchange what root makes there.
func TempDir() string {
	if dir, err := hostpath.Trusted(os.TempDir()); err == nil {
		return dir
	}
	return "/tmp"
}

// New makes a directory in parent, which may be the user's.
func New(parent, engine string, user *shared.User) (*Dir, error) {
	name := filepath.Join(parent, begins+engine+"-")
	if _, already := sweepOnce.LoadOrStore(name, true); !already {
		sweep(name)
	}
	p, err := os.MkdirTemp(parent, filepath.Base(name))
	if err != nil {
		return nil, err
	}
	d := &Dir{Path: p, user: user}
	if d.top, err = openDir(p); err == nil {
		_ = hostpath.TryLock(d.top, unix.LOCK_EX) // after a failure nobody can lock it to remove it
		var st unix.Stat_t
		if err = unix.Fstat(d.top, &st); err == nil && int(st.Uid) != os.Geteuid() {
			err = hostpath.ErrNotPrivate // the owner of parent has exchanged it
		}
		if err == nil && user != nil {
			err = unix.Fchmod(d.top, 0o711)
		}
	}
	if err != nil {
		d.Remove()
		return nil, err
	}
	return d, nil
}

func openDir(p string) (int, error) {
	return unix.Open(p, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// sweep removes what killed engines have left.
func sweep(name string) {
	parent, prefix := filepath.Split(name)
	entries, _ := os.ReadDir(parent)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		p := filepath.Join(parent, e.Name())
		fd, err := openDir(p)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		ours := unix.Fstat(fd, &st) == nil && int(st.Uid) == os.Geteuid()
		if ours && time.Since(time.Unix(st.Mtim.Unix())) > young && hostpath.TryLock(fd, unix.LOCK_EX) == nil {
			RemoveTree(p)
		}
		unix.Close(fd)
	}
}

// Make makes a directory of the user's within.
func (d *Dir) Make(name string) (string, error) {
	if err := unix.Mkdirat(d.top, name, 0o700); err != nil {
		return "", err
	}
	f, err := d.open(name, unix.O_DIRECTORY)
	f.Close()
	return filepath.Join(d.Path, name), err
}

// Create makes a file of the user's within.
func (d *Dir) Create(name string) (*os.File, error) {
	return d.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
}

func (d *Dir) open(name string, how int) (*os.File, error) {
	fd, err := hostpath.Openat(d.top, name, how|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err == nil && d.user != nil {
		err = unix.Fchown(fd, int(d.user.UID), int(d.user.GID))
	}
	return os.NewFile(uintptr(fd), name), err
}

// Remove removes it with all its contents. d may be nil.
func (d *Dir) Remove() {
	if d != nil {
		RemoveTree(d.Path)
		hostpath.Unlock(d.top)
	}
}

// Link makes a private home, or finds a session's, and in it links to what is shown in the real one.
func Link(private string, spec *shared.Spec) error {
	// Commands of the session may have put symlinks there, and its user in the directory around it.
	dir, name := filepath.Split(private)
	around, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer around.Close()
	uid, gid := -1, -1
	if u := spec.User; u != nil {
		uid, gid = int(u.UID), int(u.GID)
	}
	if err := hostpath.MakePoint(around, name, true, 0o700, uid, gid); err != nil {
		return err
	}
	home, err := around.OpenRoot(name)
	if err != nil {
		return err
	}
	defer home.Close()
	for _, e := range spec.Table {
		rel, ok := strings.CutPrefix(e.Path, spec.Home+"/")
		if !ok || !e.Access.Shows() {
			continue
		}
		// What prevents it belongs to a command.
		if dir := filepath.Dir(rel); dir != "." && hostpath.MakePoint(home, dir, true, 0o755, uid, gid) != nil {
			continue
		}
		if err := home.Symlink(e.Path, rel); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// Environ is a new environment like env, in which HOME and TMPDIR name private directories in place
// of values that may not stay. home is empty if there is none.
func Environ(env []string, home, temp string, stays func(name, value string) bool) []string {
	private, hasTemp := map[string]string{"HOME": home, "TMPDIR": temp}, false
	out := make([]string, 0, len(env)+1)
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if private[name] != "" && !stays(name, value) {
			entry = name + "=" + private[name]
		}
		hasTemp = hasTemp || name == "TMPDIR"
		out = append(out, entry)
	}
	if !hasTemp {
		out = append(out, "TMPDIR="+temp)
	}
	return out
}

// RemoveTree removes a directory with all that commands have made in it.
func RemoveTree(dir string) error {
	return hostpath.RemoveTree(context.Background(), filepath.Dir(dir), filepath.Base(dir))
}
