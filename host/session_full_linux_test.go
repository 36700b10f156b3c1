package host_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/testing/netns"
)

// fullDisk is set where TestDiskIsFull mounts small file systems: in a mount namespace of its own. In
// the machine's, a mount point that is removed makes the holders of other tests begin anew.
const fullDisk = "SBXHOST_TEST_FULL"

// A disk that is full at whatever moment of a session's making: the command runs
// with less, and says so, or not at all, and says why; nothing of it is left, and
// with some room again the same session works.
func TestDiskIsFull(t *testing.T) {
	if os.Getenv(fullDisk) == "" {
		t.Parallel()
		netns.Again(t, unix.CLONE_NEWNS, 0, fullDisk+"=1")
		return
	}
	tools, other, root := t.TempDir(), t.TempDir(), t.TempDir()
	rounds := map[string]int{"names": 34, "blocks": 5}
	for name, fill := range map[string]func(n int) string{
		"names":  func(n int) string { return fmt.Sprintf("size=4m,nr_inodes=%d", n+2) },
		"blocks": func(n int) string { return fmt.Sprintf("size=%dk", 4*(n+1)) },
	} {
		for _, session := range []string{"", "work"} {
			t.Run(name+session, func(t *testing.T) {
				t.Parallel()
				worked, degraded, refused := 0, 0, 0
				step := 1
				if testing.Short() && name == "names" {
					step = 3
				}
				for n := 0; n < rounds[name]; n += step {
					disk := t.TempDir()
					if err := unix.Mount("full", disk, "tmpfs", 0, fill(n)); err != nil {
						t.Fatal(err)
					}
					begin := func() (*host.Host, error) {
						return host.New(t.Context(), host.Options{Builtins: builtins, Dir: root,
							Workspace: host.WorkspaceOptions{Root: root, Temp: true, Readable: []string{tools, other}},
							Session:   host.SessionOptions{Name: session, Dir: disk + "/sessions"},
							Sandboxes: map[string]host.Definition{"fast": {Engine: "native"}}})
					}
					h, err := begin()
					if err == nil {
						var out []byte
						cmd := h.Command(t.Context(), "fast", "echo", "runs")
						out, err = cmd.Output()
						for _, note := range cmd.Report().Degraded {
							if !strings.Contains(note, "no space left") && !strings.Contains(note, "read-only") && !strings.Contains(note, "lasts for one command") {
								t.Errorf("%d: %s", n, note)
							}
						}
						if err == nil && string(out) == "runs\n" {
							worked++
						}
						if len(cmd.Report().Degraded) > 0 {
							degraded++
						}
						if err := h.Close(); err != nil && !errors.Is(err, syscall.ENOSPC) {
							t.Errorf("%d: closing: %v", n, err)
						}
					}
					if err != nil {
						refused++
						if !strings.Contains(err.Error(), "no space left on device") || !strings.Contains(err.Error(), disk) {
							t.Errorf("%d: %v", n, err)
						}
					}
					if err := unix.Mount("full", disk, "tmpfs", unix.MS_REMOUNT, "size=64m,nr_inodes=10000"); err != nil {
						t.Error(err)
					}
					if h, err = begin(); err != nil {
						t.Errorf("%d: with room again: %v", n, err)
					} else {
						if got := output(t, h, "fast", "echo kept >/tmp/f; echo kept >"+tools+"/f; cat /tmp/f "+tools+"/f"); got != "kept\nkept\n" {
							t.Errorf("%d: with room again: %q", n, got)
						}
						h.Close()
					}
					if session != "" {
						if err := host.RemoveSession(nil, disk+"/sessions", session); err != nil {
							t.Errorf("%d: %v", n, err)
						}
					}
					left, err := os.ReadDir(disk + "/sessions")
					if err != nil || len(left) > 1 {
						t.Errorf("%d: left %v, %v", n, left, err)
					}
					if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
						t.Error(err)
					}
				}
				if worked == 0 || name == "names" && refused == 0 || name == "blocks" && degraded == 0 {
					t.Errorf("%d worked, %d of them with less, and %d were refused: that tried too little", worked, degraded, refused)
				}
			})
		}
	}
}
