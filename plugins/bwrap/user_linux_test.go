package bwrap

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/plugins/internal/inside"
	"github.com/sbxhost/sbxhost/shared"
)

// Root can run a command as somebody else, who is then as confined as ever;
// nobody else can.
func TestUser(t *testing.T) {
	t.Parallel()
	e := needBwrap(t)
	spec := shared.Spec{User: &shared.User{UID: 23456, GID: 34567}}
	if os.Geteuid() != 0 {
		if _, err := e.Open(t.Context(), spec); !errors.Is(err, shared.ErrDenied) {
			t.Fatalf("Open as another user: %v", err)
		}
		return
	}
	dir := inside.Workspace(t)
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(dir, 23456, 34567); err != nil {
		t.Fatal(err)
	}
	spec.Table = []shared.Entry{inside.BindRW(dir)}
	spec.Home = "/home/somebody"
	inside.Expect(t, e, spec, "echo $(id -u) $(id -g) $(id -G); cd /home/somebody && echo x > y; grep -E 'Cap(Eff|Bnd|Prm)' /proc/self/status | grep -cv 0000000000000000; touch "+dir+"/made",
		"23456 34567 34567\n0")
	info, err := os.Stat(filepath.Join(dir, "made"))
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 23456 || st.Gid != 34567 {
		t.Errorf("made by %d:%d", st.Uid, st.Gid)
	}
	if err := os.Chmod(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = inside.TryRun(t, e, spec, shared.Command{Args: []string{"/bin/true"}})
	if e, ok := errors.AsType[*shared.Error](err); !ok || e.Kind != shared.ErrDenied || !strings.Contains(e.Hint, "user 23456") {
		t.Errorf("in a directory that the user cannot search: %v", err)
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	inside.Expect(t, e, spec, "( : >> /proc/sys/kernel/core_pattern ) 2>/dev/null && echo writable || echo refused", "refused")
}
