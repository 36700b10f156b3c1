package hostpath

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Groups of one are common, and what their members build is group-writable.
func TestWritableByOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to give files away")
	}
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		uid, gid int
		mode     os.FileMode
		want     bool
	}{
		{1000, 1000, 0o755, false}, {1000, 1000, 0o775, false}, {1000, 0, 0o775, false},
		{1000, 100, 0o775, true}, {1000, 100, 0o755, false}, {0, 0, 0o757, true},
	} {
		if err := errors.Join(os.Chown(file, tt.uid, tt.gid), os.Chmod(file, tt.mode)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := writableByOthers(file, info); got != tt.want {
			t.Errorf("%d:%d %v: %v, want %v", tt.uid, tt.gid, tt.mode, got, tt.want)
		}
	}
}

func TestCheckProgram(t *testing.T) {
	t.Parallel()
	dir := place(t, "bin/good", "bin/plain", "open/p", "open/deep/p", "bin/anybodys", "ws/p", "bin/out -> ../ws/p", "ws/in -> ../bin/good", "bin/own -> good", "open/link -> ../bin/good", "bin/gone -> nowhere", "bin/dir/", "bin/venv", "bin/by-env", "bin/in", "bin/led", "bin/linked", "bin/twice")
	if err := os.Link(dir+"/bin/linked", dir+"/ws/linked"); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"bin/good": 0o755, "open/p": 0o755, "open/deep/p": 0o755, "bin/anybodys": 0o777, "ws/p": 0o755, "open": 0o777, "bin/venv": 0o755, "bin/by-env": 0o755, "bin/in": 0o755, "bin/led": 0o755, "bin/linked": 0o755, "bin/twice": 0o755} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, line := range map[string]string{"venv": "#!" + dir + "/ws/p -x\n", "by-env": "#! /usr/bin/env -S A=" + dir + "/ws/p x", "in": "#!/bin/sh\n# " + dir + "/ws/p\n", "led": "#!" + dir + "/bin/out", "twice": "#!" + dir + "/bin/venv"} {
		if err := os.WriteFile(dir+"/bin/"+name, []byte(line), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	written := func(p string) string {
		if filepath.Dir(p) == dir+"/ws" {
			return "the workspace"
		}
		return ""
	}
	for name, want := range map[string]string{
		"bin/good": "", "bin/own": "", "bin/in": "", "bin/venv": "lies in the workspace", "bin/by-env": "lies in the workspace", "bin/led": "lies in the workspace", "bin/twice": "lies in the workspace", "bin/plain": "not executable", "bin/anybodys": "writable by its group or by others", "open/p": "who can replace what lies in it", "open/deep/p": "who can replace what lies in it",
		"ws/p": "lies in the workspace", "bin/out": "lies in the workspace", "ws/in": "lies in the workspace", "open/link": "who can replace what lies in it", "bin/gone": "does not exist", "bin/dir": "no program", "bin/linked": "2 names (hard links",
	} {
		found, err := CheckProgram(filepath.Join(dir, name), written)
		if want == "" && (err != nil || found.Path() != dir+"/bin/good" && name != "bin/in") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

func TestInterpreter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/script", []byte("#! /bin/sh -e\nexit\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("script", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	if words, err := Interpreter(dir + "/script"); err != nil || !slices.Equal(words, []string{"/bin/sh", "-e"}) {
		t.Errorf("%q, %v", words, err)
	}
	if words, err := Interpreter(dir + "/link"); err == nil {
		t.Errorf("a symlink: %q", words)
	}
}

// Only in a package manager's directories several names are no reason to refuse a program.
func TestLinkedOutsideOfPackages(t *testing.T) {
	t.Parallel()
	dir := place(t, "a")
	if err := os.Link(dir+"/a", dir+"/b"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(dir + "/a")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"/usr/bin/git": false, "/usr/local/bin/git": true, "/nix/store/x/bin/git": false, "/home/u/bin/git": true} {
		if got := linked(path, info); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// What was a directory when its path was resolved is another user's symlink now.
func TestCheckAboveLink(t *testing.T) {
	t.Parallel()
	dir := place(t, "d/", "link -> DIR/d")
	if err := checkAbove(dir + "/d/file"); err != nil {
		t.Error(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Lchown(dir+"/link", 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if err := checkAbove(dir + "/link/file"); err == nil {
			t.Error("a symlink of another user is taken for a directory")
		}
	}
}
