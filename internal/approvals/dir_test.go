//go:build unix

package approvals

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// Root with the HOME of a user, as sudo can keep it, leaves nothing there.
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
	if _, err := store.Add(t.Context(), Key{Argv: []string{"true"}}, Always, "", time.Hour, ""); !errors.Is(err, hostpath.ErrNotPrivate) {
		t.Errorf("root's approvals in it: %v", err)
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("it has left %v, %v", left, err)
	}
	own := filepath.Join(t.TempDir(), "a/b")
	if _, err := Open(own).Add(t.Context(), Key{Argv: []string{"true"}}, Always, "", time.Hour, ""); err != nil {
		t.Errorf("in a directory of root's: %v", err)
	}
}

// Nor does a link of the user's lead it into a directory of root's.
func TestRootFollowsNoLinkInAHome(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can give a link to another user")
	}
	home, roots := t.TempDir(), t.TempDir()
	link := filepath.Join(home, "sbxhost")
	if err := errors.Join(os.Chmod(roots, 0o700), os.Symlink(roots, link), os.Lchown(link, 54321, 54321)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(link).Add(t.Context(), Key{Argv: []string{"true"}}, Always, "", time.Hour, ""); err == nil {
		t.Error("it was followed")
	}
	if left, err := os.ReadDir(roots); err != nil || len(left) > 0 {
		t.Errorf("it has left %v, %v", left, err)
	}
}
