//go:build unix

package scratch

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

func owner(t *testing.T, p string) int {
	t.Helper()
	info, err := os.Lstat(p)
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}

// Root works for a user who exchanges what lies in a directory of the user's.
func TestOfRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to give directories away")
	}
	user := &shared.User{UID: 12345, GID: 12345}
	parent, outside := t.TempDir(), t.TempDir()
	d, err := New(parent, "test", user)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Remove)
	if info, err := os.Stat(d.Path); err != nil || owner(t, d.Path) != 0 || info.Mode().Perm() != 0o711 {
		t.Errorf("the user can exchange what is in it: %v, %v", info, err)
	}
	if err := os.Mkdir(d.Path+"/there", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Make("there"); err == nil || owner(t, d.Path+"/there") != 0 {
		t.Errorf("a directory that was there: %v", err)
	}
	if err := errors.Join(os.Rename(d.Path, d.Path+"-moved"), os.Symlink(outside, d.Path)); err != nil {
		t.Fatal(err)
	}
	_, err = d.Make("temp")
	f, err2 := d.Create("file")
	if err := errors.Join(err, err2, f.Close()); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"/temp", "/file"} {
		if uid := owner(t, d.Path+"-moved"+name); uid != int(user.UID) {
			t.Errorf("%s belongs to %d", name, uid)
		}
	}
	if err := errors.Join(os.Remove(d.Path), os.Rename(d.Path+"-moved", d.Path)); err != nil {
		t.Fatal(err)
	}
	// A session's directory is the user's.
	session := t.TempDir()
	if err := errors.Join(os.Chown(session, int(user.UID), -1), os.Symlink(outside, session+"/home")); err != nil {
		t.Fatal(err)
	}
	spec := &shared.Spec{User: user, Home: "/home/u", Table: []shared.Entry{{Path: "/home/u/name.d/x", Access: shared.ReadOnly}}}
	if err := Link(session+"/home", spec); err == nil {
		t.Error("a symlink is a home")
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("made outside: %v, %v", entries, err)
	}
	for _, home := range []string{session + "/other", session + "/other", d.Path + "/home"} { // the second one is there
		if err := Link(home, spec); err != nil {
			t.Error(err)
		}
		if to, err := os.Readlink(home + "/name.d/x"); err != nil || to != "/home/u/name.d/x" || owner(t, home) != int(user.UID) || owner(t, home+"/name.d") != int(user.UID) {
			t.Errorf("%s: %v", to, err)
		}
	}
}

func TestTempDir(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	if got := TempDir(); got != dir {
		t.Errorf("one's own: %s", got)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if got := TempDir(); got != "/tmp" {
		t.Errorf("everybody's: %s", got)
	}
}
