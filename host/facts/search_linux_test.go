package facts

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/host/view"
)

// What was found is kept for the next process, in a file of this user's alone: unless it is
// not to be, or the directory is open to others.
func TestIndexFile(t *testing.T) {
	t.Parallel()
	old, err := filepath.Abs("../..") // these sources: nothing here is as young as this test
	if err != nil {
		t.Fatal(err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(old, &fs); err != nil {
		t.Fatal(err)
	}
	switch fs.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
	default:
		t.Skipf("file systems of type %#x are not indexed", fs.Type)
	}
	for _, tt := range []struct {
		name       string
		fullSearch bool
		mode       os.FileMode
		want       int
	}{
		{"on", false, 0o700, 1},
		{"off", true, 0o700, 0},
		{"in a directory that others can enter", false, 0o711, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			c := tr.machine(t).Config
			c.FullSearch = tt.fullSearch
			state := c.Caller.StateDir()
			if err := os.MkdirAll(state, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(state, tt.mode); err != nil {
				t.Fatal(err)
			}
			m, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.resolve(t.Context(), "fast", view.Definition{DenyPaths: []string{"**/*.pem"}, BindPaths: []view.Bind{{Host: old}}}); err != nil {
				t.Fatal(err)
			}
			m.Remember()
			files, err := filepath.Glob(state + "/trees*")
			if err != nil || len(files) != tt.want {
				t.Fatalf("%q, %v", files, err)
			}
			for _, file := range files {
				if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 || info.Size() < 1000 {
					t.Errorf("%v, %v", info, err)
				}
			}
		})
	}
}
