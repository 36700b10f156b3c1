package facts

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

// searchCases are directories of root's, or of the user 1000 (with group 1000,
// and 2000 besides), and whether that user can search them.
var searchCases = []struct {
	name     string
	mode     fs.FileMode
	uid, gid uint32
	want     bool
}{
	{"for root alone", 0o700, 0, 0, false},
	{"to go through", 0o711, 0, 0, true},
	{"to list and not to go through", 0o704, 0, 0, false},
	{"by the group", 0o710, 0, 1000, true},
	{"by a further group", 0o710, 0, 2000, true},
	{"of another group", 0o710, 0, 3000, false},
	{"for all but the group", 0o701, 0, 2000, false},
	{"his own", 0o700, 1000, 0, true},
	{"his own, for all but him", 0o077, 1000, 1000, false},
}

var otherUser = shared.User{UID: 1000, GID: 1000, Groups: []uint32{2000}}

// Unsearchable says what the kernel does, with modes.
func TestUnsearchableAsTheKernelSays(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root runs commands as another user")
	}
	base := t.TempDir()
	for dir := base; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f := newLookup(t.Context(), &Machine{Config: Config{Owner: &Owner{User: otherUser}}}, nil)
	for _, c := range searchCases {
		dir := filepath.Join(base, strings.ReplaceAll(c.name, " ", "-"))
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, int(c.uid), int(c.gid)), os.Chmod(dir, c.mode)); err != nil {
			t.Fatal(err)
		}
		want := ""
		cmd := exec.Command("test", "-x", dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser.UID, Gid: otherUser.GID, Groups: otherUser.Groups}}
		if err := cmd.Run(); err != nil {
			if _, ran := errors.AsType[*exec.ExitError](err); !ran {
				t.Fatal(err)
			}
			want = dir
		}
		if (want == "") != c.want {
			t.Errorf("%s: the kernel says %v", c.name, want == "")
		}
		if got := f.Unsearchable(filepath.Join(dir, "a/b")); got != want {
			t.Errorf("%s: closed at %q, want %q", c.name, got, want)
		}
		if got := f.Unsearchable(dir); got != "" {
			t.Errorf("%s: its name is closed at %q", c.name, got)
		}
	}
	if got := newLookup(t.Context(), &Machine{}, nil).Unsearchable(filepath.Join(base, "for-root-alone/a")); got != "" {
		t.Errorf("for the caller himself: %q", got)
	}
}
