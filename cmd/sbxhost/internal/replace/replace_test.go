package replace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// What an editor has written in between stays.
func TestReplaceFileKeepsWhatIsNew(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("of the editor"), 0o644); err != nil {
		t.Fatal(err)
	}
	dir, err := hostpath.OpenDir("/", filepath.Dir(path), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	err = Replace(dir, "file", []byte("as it was read"), []byte("new"))
	if err == nil || !strings.Contains(err.Error(), "was not written: it was changed meanwhile") {
		t.Errorf("error %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "of the editor" {
		t.Errorf("it says %q, %v", text, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
