package cmdengine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/testing/programs"
	"github.com/sbxhost/sbxhost/shared"
)

// An unconfined command runs in the directory that its path was when it was
// approved, or not at all, whatever is renamed meanwhile.
func TestDirectoryIsNoSymlink(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"approved", "elsewhere"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		script := "#!/bin/sh\necho \"$0\" " + dir + "\n"
		if err := programs.Write(filepath.Join(root, dir, "x.sh"), []byte(script)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("elsewhere", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	sb := open(t, config(direct), specFor(direct))
	run := func(dir string) (string, error) {
		o := newOutput(t)
		p, err := sb.Start(t.Context(), shared.Command{Args: []string{"./x.sh"}, Env: stdEnv, Dir: filepath.Join(root, dir)}, shared.Stdio{Stdout: o.w})
		o.w.Close()
		if err != nil {
			return "", err
		}
		text := o.rest()
		_, err = p.Wait(t.Context())
		return text, err
	}
	if text, err := run("approved"); err != nil || text != "./x.sh approved\n" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := run("link"); err == nil || !strings.Contains(err.Error(), root+"/link") {
		t.Errorf("by a symlink: %q, %v", text, err)
	}

	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				unix.Renameat2(unix.AT_FDCWD, filepath.Join(root, "approved"), unix.AT_FDCWD, filepath.Join(root, "link"), unix.RENAME_EXCHANGE)
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	ran := 0
	for i := 0; i < 2000 && ran < 100; i++ {
		text, err := run("approved")
		if strings.Contains(text, "elsewhere") {
			t.Fatalf("it ran elsewhere: %q, %v", text, err)
		} else if err == nil && text != "" {
			ran++
		}
	}
	if ran == 0 {
		t.Error("it never ran, so nothing was tried")
	}
}
