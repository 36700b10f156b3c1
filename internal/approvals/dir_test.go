//go:build unix

package approvals

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Root with the HOME of a user, as sudo can keep it, leaves nothing there that this
// user cannot use.
func TestRootMakesNothingOfItsOwnInAHome(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root could")
	}
	const uid = 54321
	home := t.TempDir()
	if err := os.Chown(home, uid, uid); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, ".local/state/sbxhost")
	store := Open(dir)
	if _, err := store.Add(t.Context(), Key{Argv: []string{"true"}}, Always, "", time.Hour, ""); !errors.Is(err, ErrTampered) {
		t.Errorf("root's approvals in it: %v", err)
	}
	for _, at := range []string{".local", ".local/state", ".local/state/sbxhost"} {
		info, err := os.Stat(filepath.Join(home, at))
		if err != nil || info.Sys().(*syscall.Stat_t).Uid != uid || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", at, info, err)
		}
	}
	if err := MakeDir(dir); err != nil {
		t.Errorf("again: %v", err)
	}
	own := filepath.Join(t.TempDir(), "a/b")
	if _, err := Open(own).Add(t.Context(), Key{Argv: []string{"true"}}, Always, "", time.Hour, ""); err != nil {
		t.Errorf("in a directory of root's: %v", err)
	}
}
