package bwrap

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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
	dir := workspace(t)
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(dir, 23456, 34567); err != nil {
		t.Fatal(err)
	}
	spec.Table = []shared.Entry{bindRW(dir)}
	spec.Home = "/home/somebody"
	expect(t, e, spec, "echo $(id -u) $(id -g) $(id -G); cd /home/somebody && echo x > y; grep -E 'Cap(Eff|Bnd|Prm)' /proc/self/status | grep -cv 0000000000000000; touch "+dir+"/made",
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
	_, err = tryRun(t, e, spec, shared.Command{Args: []string{"/bin/true"}})
	if e, ok := errors.AsType[*shared.Error](err); !ok || e.Kind != shared.ErrDenied || !strings.Contains(e.Hint, "user 23456") {
		t.Errorf("in a directory that the user cannot search: %v", err)
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	expect(t, e, spec, "( : >> /proc/sys/kernel/core_pattern ) 2>/dev/null && echo writable || echo refused", "refused")
}

// A session of root's in which commands run as somebody else, who cannot even get
// to the session's directory: the overlay is made with that user's rights.
func TestSessionOfAnotherUser(t *testing.T) {
	t.Parallel()
	needHolder(t)
	if os.Geteuid() != 0 {
		return // what TestUser says of everybody else holds here, too
	}
	const uid, gid = 23456, 34567
	lower := workspace(t)
	for d := lower; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, lower+"/theirs/f", "f")
	write(t, lower+"/roots/f", "f")
	for _, p := range []string{"", "/theirs", "/theirs/f"} {
		if err := os.Chown(lower+p, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	spec := sessionSpec(t)
	spec.User = &shared.User{UID: uid, GID: gid, Groups: []uint32{45678}}
	spec.Home = "/home/somebody"
	spec.Table = []shared.Entry{{Source: lower, Path: "/o", Access: shared.Overlay, Why: "workspace.caches"}}
	one, two := New(), New() // the second finds the first one's holder
	keep, err := one.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer keep.Close(t.Context())
	pid := holderPid(t, spec.Session.Dir)
	expect(t, one, spec, "cd /o; stat -c %u:%g . theirs/f; echo new > theirs/f; touch roots/x 2>/dev/null || echo refused; echo x > /home/somebody/x; grep '^Cap' /proc/self/status | grep -c 0000000000000000",
		"23456:34567\n23456:34567\nrefused\n5")
	expect(t, two, spec, "cat /o/theirs/f /home/somebody/x", "new\nx")
	if now := holderPid(t, spec.Session.Dir); now != pid {
		t.Errorf("there are two holders: %d and %d", pid, now)
	}
	if b, _ := os.ReadFile(lower + "/theirs/f"); string(b) != "f" {
		t.Errorf("the host's file is %q", b)
	}
	// Root's own commands in the same session have a holder of their own.
	spec.User, spec.Home = nil, ""
	expect(t, two, spec, "echo $(id -u); cat /o/theirs/f", "0\nf")
}
