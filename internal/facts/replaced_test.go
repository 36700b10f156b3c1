//go:build unix

package facts

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

func TestReplaced(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	shut := filepath.Join(top, "shut")
	var list []WatchedPath
	watch := func(p string) {
		err := os.WriteFile(p, nil, 0o600)
		was, failed := hostpath.Lstat(p)
		if err := errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		list = append(list, WatchedPath{p, "was not hidden", "deny_paths", was})
	}
	if err := errors.Join(os.Mkdir(shut, 0o700), os.MkdirAll(top+"/moved/.git/hooks", 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"same", "gone", "other", "shut/a", "shut/b", "moved/.git/hooks/a", "moved/.env"} {
		watch(filepath.Join(top, name))
	}
	err := errors.Join(os.Remove(top+"/gone"), os.WriteFile(top+"/new", nil, 0o600), os.Rename(top+"/new", top+"/other"), os.Chmod(shut, 0o600), os.Rename(top+"/moved", top+"/away"))
	t.Cleanup(func() { os.Chmod(shut, 0o700) })
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		top + "/gone was removed or replaced from outside while the command ran; from then on it was not hidden (deny_paths)",
		top + "/other was removed or replaced from outside while the command ran; from then on it was not hidden (deny_paths)",
	}
	if os.Geteuid() != 0 {
		want = append(want, shut+" was renamed or removed, or cannot be searched any more: a hidden or protected path in it may have been replaced while the command ran")
	}
	// One sentence for all in a directory that is renamed: the mounts in it hold.
	want = append(want, top+"/moved was renamed or removed, or cannot be searched any more: a hidden or protected path in it may have been replaced while the command ran")
	if got := Replaced(list); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
