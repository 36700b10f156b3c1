package sandboxinit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLocate(t *testing.T) {
	type want struct {
		beside, self bool
		text         string
	}
	for name, test := range map[string]struct {
		prepare func(t *testing.T, beside string)
		hooked  bool
		want    want
	}{
		"beside":            {file(0o755), false, want{beside: true}},
		"beside, hooked":    {file(0o755), true, want{beside: true}},
		"owner only":        {file(0o500), false, want{beside: true}},
		"none":              {nil, false, want{text: "install sbxhost-init as"}},
		"none, hooked":      {nil, true, want{self: true}},
		"others may write":  {file(0o757), false, want{text: "chmod go-w"}},
		"writable, hooked":  {file(0o757), true, want{self: true}},
		"not executable":    {file(0o644), false, want{text: "chmod 0755"}},
		"directory":         {directory, false, want{text: "install sbxhost-init as"}},
		"symlink":           {symlink, false, want{text: "not a regular file"}},
		"directory, hooked": {directory, true, want{self: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(dir, "program")
			beside := filepath.Join(dir, "sbxhost-init")
			file(0o755)(t, program)
			if test.prepare != nil {
				test.prepare(t, beside)
			}
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(program, link); err != nil {
				t.Fatal(err)
			}
			for _, p := range []string{program, link} {
				b, err := locate(p, test.hooked)
				if test.want.text != "" {
					if err == nil || !strings.Contains(err.Error(), test.want.text) {
						t.Errorf("error %v, want one with %q", err, test.want.text)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if b.Self != test.want.self || (b.Path == beside) != test.want.beside {
					t.Errorf("got %+v, want %+v", b, test.want)
				}
			}
		})
	}
}

func file(mode os.FileMode) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
}

func directory(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, path string) {
	t.Helper()
	if err := os.Symlink("program", path); err != nil {
		t.Fatal(err)
	}
}

// A swap between Locate and Open must not get past the check.
func TestOpenChecksWhatItOpened(t *testing.T) {
	beside := filepath.Join(t.TempDir(), "sbxhost-init")
	file(0o755)(t, beside)
	b := Binary{Path: beside}
	f, err := b.Open()
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := os.Chmod(beside, 0o777); err != nil {
		t.Fatal(err)
	}
	if f, err := b.Open(); err == nil {
		f.Close()
		t.Error("opened a file that anyone may write")
	}
}

func TestLocateSelf(t *testing.T) {
	b, err := Locate()
	if err != nil {
		t.Fatal(err)
	}
	if !b.Self {
		t.Fatalf("got %+v, want the test binary", b)
	}
	f, err := b.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.Stat(b.Path)
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(got, want) {
		t.Errorf("%s opened as another file", b.Path)
	}
}

func TestArgv(t *testing.T) {
	want := []string{"/proc/self/fd/3", "sbxhost-init", "4"}
	if got := Argv(3, 4); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for s, want := range map[string]bool{
		"3": true, "4": true, "1048576": true,
		"": false, "2": false, "-3": false, "+4": false, "04": false, " 4": false, "4x": false, "9999999999": false,
	} {
		if _, ok := parseFD(s); ok != want {
			t.Errorf("parseFD(%q) is %v", s, ok)
		}
	}
}
