package scan

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// remember fills a memory with what a tree of directories holds, and gives its file.
func remember(t *testing.T, root string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "trees")
	m := NewMemory(file)
	if got := askedFor(t, m, root); got != nil {
		t.Fatalf("found %q", got)
	}
	if err := m.Save(); err != nil {
		t.Fatal(err)
	}
	return file
}

func manyDirs(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	for i := range 3 * worthSaving {
		dir := filepath.Join(root, fmt.Sprint("dir", i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "plain"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// askedFor scans as long after all changes as it takes to believe times.
func askedFor(t *testing.T, m *Memory, root string) (found []string) {
	t.Helper()
	s := m.New(Query{Asked: func(name string) bool { return name == "asked" || name == "PLAIN" }})
	s.now = func() time.Time { return time.Now().Add(time.Hour) }
	r, err := s.Scan(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Found {
		found = append(found, f.Path)
	}
	return found
}

// What another process has read is believed, without reading it again.
func TestMemory(t *testing.T) {
	root := manyDirs(t)
	file := remember(t, root)
	m := NewMemory(file)
	m.load.Do(m.read)
	d := m.known[filepath.Join(root, "dir7")]
	if d == nil {
		t.Fatalf("%d directories are known, and dir7 is not", len(m.known))
	}
	copy(d.entries[len(d.entries)-len("plain"):], "PLAIN") // so that it shows
	if got, want := askedFor(t, m, root), []string{filepath.Join(root, "dir7/PLAIN")}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if err := m.Save(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Size() < 8*3*worthSaving {
		t.Errorf("the memory was lost: %v, %v", info, err)
	}
}

// What has changed since is seen.
func TestMemoryOfChanged(t *testing.T) {
	root := manyDirs(t)
	file := remember(t, root)
	want := filepath.Join(root, "dir3/asked")
	times := time.Unix(1, 0)
	if err := os.WriteFile(want, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(root, "dir3"), times, times); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Mkdir(moved, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(moved, "asked"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	replaced := filepath.Join(root, "dir5")
	if err := os.RemoveAll(replaced); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(moved, replaced); err != nil {
		t.Fatal(err)
	}
	if got := askedFor(t, NewMemory(file), root); !slices.Equal(got, []string{want, filepath.Join(replaced, "asked")}) {
		t.Errorf("found %q", got)
	}
}

// A directory that changed a moment ago is not remembered.
func TestMemoryOfUnsettled(t *testing.T) {
	root := manyDirs(t)
	m := NewMemory(filepath.Join(t.TempDir(), "trees"))
	s := m.New(Query{})
	now := time.Now()
	s.now = func() time.Time { return now.Add(-time.Hour) }
	if _, err := s.Scan(root); err != nil {
		t.Fatal(err)
	}
	if len(m.known) > 0 {
		t.Errorf("%d directories are remembered", len(m.known))
	}
}

// A file that makes no sense, or that others could have written, says nothing.
// What was saved before anything was looked for stays saved: a first command may have
// nothing to look for, and a later one's scan is not waited for.
func TestMemorySavedFirst(t *testing.T) {
	t.Parallel()
	m := NewMemory(filepath.Join(t.TempDir(), "trees"))
	saved := make(chan error)
	go func() { saved <- m.Save() }()
	m.recall("/")
	if err := <-saved; err != nil {
		t.Error(err)
	}
	m = NewMemory(m.file)
	if err := m.Save(); err != nil {
		t.Error(err)
	}
	if m.recall("/"); m.known != nil {
		t.Error("it begins to remember when it was saved")
	}
}

func TestMemoryRefused(t *testing.T) {
	root := manyDirs(t)
	file := remember(t, root)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text []byte) func() error {
		return func() error { return os.WriteFile(file, text, 0o600) }
	}
	for name, spoil := range map[string]func() error{
		"cut off":        write(text[:len(text)/2]),
		"empty":          write(nil),
		"one bit":        write(append(slices.Clone(text[:len(text)-1]), text[len(text)-1]^1)),
		"another format": write(append([]byte{memoryFormat + 1}, text[1:]...)),
		"open to others": func() error { return os.Chmod(file, 0o622) },
		"a link": func() error {
			if err := os.Rename(file, file+".real"); err != nil {
				return err
			}
			return os.Symlink(file+".real", file)
		},
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		m := NewMemory(file)
		if m.load.Do(m.read); len(m.known) > 0 {
			t.Errorf("%s: %d directories are believed", name, len(m.known))
		}
		os.Remove(file)
		if err := write(text)(); err != nil {
			t.Fatal(err)
		}
		m = NewMemory(file)
		if m.load.Do(m.read); len(m.known) == 0 {
			t.Errorf("before %s: nothing is known", name)
		}
	}
}
