package sessiondir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fill writes n bytes that take space.
func fill(t *testing.T, path string, n int) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Repeat("x", n)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What was written to a session shows from one process to the next.
func TestRoom(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "named"} {
		base := tempDir(t) + "/sessions"
		u := mustDir(t, base, name)
		home, err := u.Sub(t.Context(), "home")
		if err != nil {
			t.Fatal(err)
		}
		room := func(u *Dir, limit uint64, full bool) {
			t.Helper()
			if err := u.Room(t.Context(), "home", limit); errors.Is(err, ErrFull) != full || err != nil && !full {
				t.Errorf("%q, %d: %v, want full: %v", name, limit, err, full)
			}
		}
		room(u, 1<<20, false)
		fill(t, home+"/a", 900<<10)
		room(u, 1<<20, false)
		fill(t, home+"/b", 900<<10)
		room(u, 1<<20, true)
		room(u, 4<<20, false) // for another definition
		room(u, 1<<20, true)
		room(u, 1<<63, false)
		room(u, 1, true)
		if name != "" {
			room(mustDir(t, base, name), 1<<20, true)
		}
		if err := os.Remove(home + "/b"); err != nil {
			t.Fatal(err)
		}
		room(u, 1<<20, false)
		if name != "" {
			room(mustDir(t, base, name), 1<<20, false)
		}
		if err := u.Room(t.Context(), "lock", 1); !errors.Is(err, ErrName) {
			t.Errorf("the lock: %v", err)
		}
	}
}

// A walk is done only where it could tell something new.
func TestMeasuredTells(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const limit = 1600
	m := measured{size: 1000, names: 300, used: 50000, at: now}
	for name, c := range map[string]struct {
		m    measured
		used int64
		at   time.Time
		want bool
	}{
		"nothing has changed":         {m, 50000, now, true},
		"it has shrunk":               {m, 100, now, true},
		"it has grown as far as room": {m, 50600, now, true},
		"and further":                 {m, 50601, now, false},
		"nearly full":                 {measured{1600, 300, 50000, now}, 50100, now, true},
		"and more than a sixteenth":   {measured{1600, 300, 50000, now}, 50101, now, false},
		"over":                        {measured{1601, 300, 50000, now}, 50000, now, false},
		"long ago":                    {m, 50000, now.Add(measuredFor), false},
		"in the future":               {m, 50000, now.Add(-time.Second), false},
		"few files":                   {measured{1000, measuredAlways, 50000, now}, 50000, now, false},
		"never":                       {measured{}, 0, now, false},
	} {
		if got := c.m.tells(limit, c.used, c.at); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Of a larger tree the processes of a named session tell one another.
func TestMeasuredIsRemembered(t *testing.T) {
	t.Parallel()
	base := tempDir(t) + "/sessions"
	u := mustDir(t, base, "named")
	home, err := u.Sub(t.Context(), "home")
	if err != nil {
		t.Fatal(err)
	}
	for i := range measuredAlways + 1 {
		fill(t, home+"/"+strconv.Itoa(i), 1)
	}
	const limit = 64 << 20
	if err := u.Room(t.Context(), "home", limit); err != nil {
		t.Fatal(err)
	}
	m, err := readMeasured(mustPath(t, u), "home")
	if err != nil || m.names != measuredAlways+1 || m.size == 0 || m.size > limit || time.Since(m.at) > time.Minute {
		t.Fatalf("%+v, %v", m, err)
	}
	// Another finds it, and measures again only where it tells too little.
	m.at, m.used = m.at.Add(-time.Minute), 1<<60
	if err := m.write(mustPath(t, u), "home"); err != nil {
		t.Fatal(err)
	}
	other := mustDir(t, base, "named")
	if err := other.Room(t.Context(), "home", limit); err != nil || other.rooms["home"] != m {
		t.Errorf("%v, %+v", err, other.rooms)
	}
	if err := other.Room(t.Context(), "home", 1); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	m.used = 0
	if err := m.write(mustPath(t, u), "home"); err != nil {
		t.Fatal(err)
	}
	third := mustDir(t, base, "named")
	if err := third.Room(t.Context(), "home", limit); err != nil || third.rooms["home"].used == 0 {
		t.Errorf("%v, %+v", err, third.rooms)
	}
}

// A tree that nobody has made with care: deeper than any path, with links out, a
// directory that cannot be read, and files with many names.
func TestMeasureTree(t *testing.T) {
	t.Parallel()
	base, outside := tempDir(t), tempDir(t)
	fill(t, outside+"/big", 8<<20)
	tree(t, base, map[string]string{"t/link": "-> " + outside, "t/a/up": "-> ..", "t/a/b/c": "x", "t/shut": "dir"})
	fill(t, base+"/t/a/file", 1<<20)
	for _, name := range []string{"/t/again", "/t/a/b/again"} {
		if err := os.Link(base+"/t/a/file", base+name); err != nil {
			t.Fatal(err)
		}
	}
	deep(t, base+"/t", strings.Repeat("d", 100), 3000, func(fd int) {
		f, err := unix.Openat(fd, "bottom", unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(f)
		if _, err := unix.Write(f, make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	})
	if err := os.Chmod(base+"/t/shut", 0); err != nil {
		t.Fatal(err)
	}
	const most = 2<<20 + 3020*(64<<10) // what file systems take for a directory
	if got, _, err := measureTree(t.Context(), base+"/t", -1); err != nil || got < 2<<20 || got > most {
		t.Errorf("%d, %v, want that of two files of a MiB and directories", got, err)
	}
	if got, _, err := measureTree(t.Context(), base+"/t", 1<<19); err != nil || got <= 1<<19 {
		t.Errorf("%d, %v, want to stop above half a MiB", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := measureTree(ctx, base+"/t", -1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, _, err := measureTree(t.Context(), base+"/t/link", -1); err == nil {
		t.Error("a symlink was followed")
	}
	if err := RemoveTree(t.Context(), base, "t"); err != nil {
		t.Error(err)
	}
}

// deep nests n directories of one name below dir.
func deep(t *testing.T, dir, name string, n int, atBottom func(fd int)) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := unix.Mkdirat(fd, name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(fd)
		if err != nil {
			t.Fatal(err)
		}
		fd = next
	}
	defer unix.Close(fd)
	if atBottom != nil {
		atBottom(fd)
	}
}

// Directories that change their places while they are measured lead nowhere.
func TestMeasureWhileMoved(t *testing.T) {
	t.Parallel()
	base, outside := tempDir(t), tempDir(t)
	fill(t, outside+"/big", 32<<20)
	tree(t, base, map[string]string{"t/a/b/c/d/f": "x", "t/z/y": "dir"})
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			os.Rename(base+"/t/a/b/c", base+"/t/z/y/c")
			os.Symlink(outside, base+"/t/a/b/c")
			os.Remove(base + "/t/a/b/c")
			os.Rename(base+"/t/z/y/c", base+"/t/a/b/c")
			os.Rename(base+"/t/a/b/c", outside+"/c")
			os.Rename(outside+"/c", base+"/t/a/b/c")
		}
	}()
	for range 2000 {
		if got, _, err := measureTree(t.Context(), base+"/t", -1); err != nil || got > 1<<20 {
			t.Errorf("%d, %v", got, err)
			break
		}
	}
	close(stop)
	<-done
}

func FuzzParseMeasured(f *testing.F) {
	for _, seed := range []string{"1 2 3 4\n", "1 2 3\n", "-1 2 3 4\n", "1 2 3 4", "9223372036854775808 0 0 0\n", "", "\n", "1 2 3 4 5\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parseMeasured(text)
		if err == nil && (m.size < 0 || m.used < 0 || m.names < 0 || len(strings.Fields(text)) != 4) || err != nil && m != (measured{}) {
			t.Errorf("%q: %+v, %v", text, m, err)
		}
	})
}

// What another process has half written, or anybody else, is not believed.
func TestMeasuredFile(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	want := measured{1, 2, 3, time.Unix(0, 4)}
	if err := want.write(dir, "home"); err != nil {
		t.Fatal(err)
	}
	if got, err := readMeasured(dir, "home"); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if left, err := filepath.Glob(dir + "/.*"); err != nil || len(left) != 1 {
		t.Errorf("%q, %v", left, err)
	}
	if err := errors.Join(os.Remove(measuredFile(dir, "home")), os.Symlink("/etc/passwd", measuredFile(dir, "home"))); err != nil {
		t.Fatal(err)
	}
	if _, err := readMeasured(dir, "home"); err == nil {
		t.Error("a symlink was followed")
	}
	if err := want.write(dir+"/nowhere", "home"); err == nil {
		t.Error("written to nowhere")
	}
}
