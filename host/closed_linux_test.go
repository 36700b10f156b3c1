package host

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What searchable says is what the kernel does.
func TestClosedAsTheKernelSays(t *testing.T) {
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
	r := resolver{owner: &owner{user: closedUser}}
	for _, c := range closedCases {
		dir := filepath.Join(base, strings.ReplaceAll(c.name, " ", "-"))
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, int(c.uid), int(c.gid)), os.Chmod(dir, c.mode)); err != nil {
			t.Fatal(err)
		}
		if c.acl != nil {
			err := unix.Setxattr(dir, "system.posix_acl_access", c.acl, 0)
			if errors.Is(err, unix.EOPNOTSUPP) && !slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "bwrap") {
				t.Logf("%s: the file system has no access lists", c.name)
				continue
			} else if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		want := ""
		cmd := exec.Command("test", "-x", dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: closedUser.UID, Gid: closedUser.GID, Groups: closedUser.Groups}}
		if err := cmd.Run(); err != nil {
			if _, ran := errors.AsType[*exec.ExitError](err); !ran {
				t.Fatal(err)
			}
			want = dir
		}
		if (want == "") != c.want {
			t.Errorf("%s: the kernel says %v", c.name, want == "")
		}
		if got := r.closed(filepath.Join(dir, "a/b")); got != want {
			t.Errorf("%s: closed at %q, want %q", c.name, got, want)
		}
		if got := r.closed(dir); got != "" {
			t.Errorf("%s: its name is closed at %q", c.name, got)
		}
	}
	if got := (&resolver{}).closed(filepath.Join(base, "for-root-alone/a")); got != "" {
		t.Errorf("for the caller himself: %q", got)
	}
}
