package sessiondir

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The test binary runs itself for tests that need several processes.
func TestMain(m *testing.M) {
	if job := os.Getenv("SESSIONDIR_TEST_JOB"); job != "" {
		os.Exit(runJob(job))
	}
	os.Exit(m.Run())
}

// need skips a test whose tool is absent, unless SBXHOST_REQUIRE says that it
// must be there.
func need(t *testing.T, tool string) string {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err == nil {
		return path
	}
	if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), tool) {
		t.Fatalf("SBXHOST_REQUIRE lists %s: %v", tool, err)
	}
	t.Skipf("%s: %v", tool, err)
	return ""
}

// tempDir is t.TempDir with its symlinks resolved, as on macOS it has some.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// tree makes files below dir. A value "dir" makes a directory, "-> x" a symlink
// to x, anything else a file with that content.
func tree(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		target, link := strings.CutPrefix(content, "-> ")
		var err error
		switch {
		case link:
			err = os.Symlink(target, p)
		case content == "dir":
			err = os.MkdirAll(p, 0o755)
		default:
			err = os.WriteFile(p, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
