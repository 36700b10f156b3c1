package host_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/host"
)

// The host's view of a command that root runs as the workspace's owner hides
// root's sessions and what is denied, whether or not the owner could get there:
// as a whole with the directory that is closed to him, or exactly.
func TestHostViewOfTheOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root has somebody else to run commands as")
	}
	const uid = 54321
	for name, of := range map[string]struct {
		mode os.FileMode
		gid  int
		want string
	}{
		"closed":      {0o700, 0, "no open\n"},
		"to search":   {0o711, 0, "open\n"},
		"by a group":  {0o710, uid, "open\n"},
		"not to list": {0o744, 0, "no open\n"},
	} {
		for _, session := range []string{"", "named"} {
			t.Run(name+" "+session, func(t *testing.T) {
				t.Parallel()
				// Of /tmp the host's view shows nothing.
				outer, err := os.MkdirTemp("/var/lib", "sbxhost-test-")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { os.RemoveAll(outer) })
				home := filepath.Join(outer, "home")
				sessions := filepath.Join(home, ".cache/sbxhost/sessions")
				err = errors.Join(os.MkdirAll(sessions, 0o755),
					os.WriteFile(sessions+"/secret", []byte("secret\n"), 0o644),
					os.WriteFile(home+"/denied", []byte("secret\n"), 0o644),
					os.WriteFile(home+"/open", []byte("open\n"), 0o644),
					os.Chmod(outer, 0o755), os.Chown(home, 0, of.gid), os.Chmod(home, of.mode))
				if err != nil {
					t.Fatal(err)
				}
				h := newHost(t, func(o *host.Options) {
					if err := errors.Join(os.Chown(o.Dir, uid, uid), os.Chmod(filepath.Dir(o.Dir), 0o755)); err != nil {
						t.Fatal(err)
					}
					// The caller's home would be hidden as a whole.
					o.Environ = []string{"HOME=" + filepath.Join(outer, "caller"), "XDG_CACHE_HOME=" + filepath.Join(home, ".cache"), "PATH=" + os.Getenv("PATH")}
					o.Session = host.SessionOptions{Name: session, Dir: filepath.Join(filepath.Dir(o.Dir), "sessions")}
					o.Sandboxes["fast"] = host.Definition{Engine: "native", Filesystem: "host", DenyPaths: []string{home + "/denied"}}
				})
				got := output(t, h, "fast", "cd "+home+" 2>/dev/null; cat "+home+"/open 2>/dev/null || echo no open; cat "+
					sessions+"/secret "+home+"/denied 2>/dev/null; exit 0")
				if got != of.want {
					t.Errorf("got %q, want %q", got, of.want)
				}
				// What somebody opens while a command runs shows nothing either.
				cmd := h.Command(t.Context(), "fast", "sh", "-c", "read go; cat "+sessions+"/secret "+home+"/denied 2>/dev/null; exit 0")
				in, write, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer in.Close()
				defer write.Close()
				var out strings.Builder
				cmd.Stdin, cmd.Stdout = in, &out
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(home, 0o755); err != nil {
					t.Error(err)
				}
				write.WriteString("go\n")
				if err := cmd.Wait(); err != nil || out.String() != "" {
					t.Errorf("once it is open: %q, %v", out.String(), err)
				}
			})
		}
	}
}

// What root has closed to the owner, in a workspace that is the owner's, is
// hidden as a whole where something in it would have to be guarded or hidden.
func TestClosedDirectoryOfTheOwnersWorkspace(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root has somebody else to run commands as")
	}
	h := newHost(t, func(o *host.Options) {
		if err := errors.Join(os.Chown(o.Dir, 54321, 54321), os.Chmod(filepath.Dir(o.Dir), 0o755)); err != nil {
			t.Fatal(err)
		}
		o.Sandboxes["fast"] = host.Definition{Engine: "native", DenyPaths: []string{"**/.env"}}
		for _, dir := range []string{"secrets", "project"} {
			if err := os.Mkdir(filepath.Join(o.Dir, dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(o.Dir, "secrets/.env"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		newGitRoot(t, filepath.Join(o.Dir, "project/repo"))
	})
	got := output(t, h, "fast", "for d in secrets project; do chmod 777 $d || ls $d || mv $d moved || rmdir $d || echo kept; done 2>/dev/null; touch made")
	if got != "kept\nkept\n" {
		t.Errorf("got %q", got)
	}
	if _, err := os.Stat(filepath.Join(h.Root(), "made")); err != nil {
		t.Error(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if got := listed(t, h.Root()+"/secrets"); len(got) != 1 {
		t.Errorf("left behind in secrets: %q", got)
	}
}

// What there may be in a home is hidden, and root makes nothing there.
func TestNothingIsMadeInAnotherHome(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root has somebody else to run commands as")
	}
	requireBwrap(t)
	const uid = 54321
	home := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(home), 0o755), os.Mkdir(home+"/.local", 0o755), os.Chown(home+"/.local", uid, uid)); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, func(o *host.Options) {
		if err := errors.Join(os.Chown(o.Dir, uid, uid), os.Chmod(filepath.Dir(o.Dir), 0o755)); err != nil {
			t.Fatal(err)
		}
		o.Environ = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
		o.Sandboxes["fast"] = host.Definition{Engine: "native", BindPaths: []host.Bind{{Host: home + "/.local"}}}
	})
	if got := output(t, h, "fast", "ls "+home+"/.local/state/sbxhost 2>/dev/null; echo ran"); got != "ran\n" {
		t.Errorf("got %q", got)
	}
	if list, err := os.ReadDir(home + "/.local"); err != nil || len(list) > 0 {
		t.Errorf("root has made %v there, %v", list, err)
	}
}
