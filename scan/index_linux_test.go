package scan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// indexable gives an empty directory on a file system that is indexed.
func indexable(t testing.TB) string {
	t.Helper()
	dir := newTree(t)
	if list, err := readDir(dir); err != nil {
		t.Fatal(err)
	} else if list.clock == clockKept {
		return dir
	}
	dir, err := os.MkdirTemp("/dev/shm", "scan")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// manyDirs makes a tree of enough directories to be indexed, and a place for its index.
func manyDirs(t testing.TB) (root, file string) {
	t.Helper()
	base := indexable(t)
	put(t, base, "index/", "tree/")
	for i := range 3 * worthSaving {
		put(t, base, fmt.Sprintf("tree/dir%d/plain", i))
	}
	return base + "/tree", base + "/index/trees"
}

var askedFor = Query{Asked: func(name string) bool { return name == "asked" }}

// process searches as another process does, long after all changes were made: it gives
// what was found, and how many directories had to be read for that.
func process(t testing.TB, file, root string, q Query) (found []string, read int) {
	t.Helper()
	x := NewIndex(file)
	s := x.New("key", q)
	s.now = func() time.Time { return time.Now().Add(time.Hour) }
	r, err := s.Scan(root)
	if err != nil {
		t.Fatal(err)
	}
	read = s.trees[root].fresh
	if err := x.Save(); err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		t.Fatal(err)
	}
	return show(root, r), read
}

// What another process has read is believed, and only what has changed is read.
func TestIndex(t *testing.T) {
	t.Parallel()
	root, file := manyDirs(t)
	if _, read := process(t, file, root, askedFor); read != 3*worthSaving+1 {
		t.Fatalf("the first process has read %d directories", read)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	if _, read := process(t, file, root, askedFor); read != 0 {
		t.Errorf("%d directories were read again", read)
	}
	put(t, root, "dir3/asked")
	longAgo := time.Unix(1, 0)
	if err := os.Chtimes(root+"/dir3", longAgo, longAgo); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Dir(root), "moved/asked")
	if err := os.RemoveAll(root + "/dir5"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Dir(root)+"/moved", root+"/dir5"); err != nil {
		t.Fatal(err)
	}
	found, read := process(t, file, root, askedFor)
	if want := []string{"asked dir3/asked", "asked dir5/asked"}; !slices.Equal(found, want) || read != 3 {
		t.Errorf("found %q, by reading %d directories", found, read)
	}
	if _, err := os.Lstat(file + ".next"); err == nil {
		t.Error("the next index is still there")
	}
}

// What two queries ask for, or two programs find, is not taken for one another.
func TestIndexOfAnotherQuery(t *testing.T) {
	t.Parallel()
	root, file := manyDirs(t)
	process(t, file, root, askedFor)
	for name, change := range map[string]func(x *Index, key *string){
		"query":   func(_ *Index, key *string) { *key += "2" },
		"program": func(x *Index, _ *string) { x.open.Do(x.read); x.reader += "2" },
	} {
		x, key := NewIndex(file), "key"
		change(x, &key)
		s := x.New(key, askedFor)
		s.now = func() time.Time { return time.Now().Add(time.Hour) }
		if _, err := s.Scan(root); err != nil || s.trees[root].fresh == 0 {
			t.Errorf("another %s: %v", name, err)
		}
		if err := x.Save(); err != nil {
			t.Fatal(err)
		}
		if _, read := process(t, file, root, askedFor); read != 0 {
			t.Errorf("another %s has what was known forgotten", name)
		}
	}
}

// A directory that changed a moment ago is not indexed, nor one that changes in the future.
func TestIndexOfUnsettled(t *testing.T) {
	t.Parallel()
	for name, age := range map[string]time.Duration{"a moment ago": time.Second, "in the future": -time.Hour} {
		begun := time.Now() // to make them can take longer than that
		root, file := manyDirs(t)
		x := NewIndex(file)
		s := x.New("key", askedFor)
		s.now = func() time.Time { return begun.Add(age) }
		if _, err := s.Scan(root); err != nil {
			t.Fatal(err)
		}
		if s.trees[root].fresh > 0 {
			t.Errorf("%s: %d directories would be believed later", name, s.trees[root].fresh)
		}
	}
}

// What was saved before anything was looked for stays saved: a first command may have
// nothing to look for, and a later one's scan is not waited for.
func TestIndexSavedFirst(t *testing.T) {
	t.Parallel()
	root, file := manyDirs(t)
	x := NewIndex(file)
	saved := make(chan error)
	go func() { saved <- x.Save() }()
	s := x.New("key", askedFor)
	if _, err := s.Scan(root); err != nil {
		t.Fatal(err)
	}
	if err := <-saved; err != nil {
		t.Error(err)
	}
	if err := x.Save(); err != nil {
		t.Error(err)
	}
}

// What is closed writes nothing later.
func TestIndexClosed(t *testing.T) {
	t.Parallel()
	root, file := manyDirs(t)
	x := NewIndex(file)
	if _, err := x.New("key", askedFor).Scan(root); err != nil {
		t.Fatal(err)
	}
	saving := make(chan error)
	go func() { saving <- x.Save() }()
	x.Close(time.Minute)
	before, _ := os.Stat(file)
	if err := errors.Join(<-saving, x.Save()); err != nil {
		t.Error(err)
	}
	if after, err := os.Stat(file); (err == nil) != (before != nil) || err == nil && !os.SameFile(before, after) {
		t.Errorf("%v, and %v after it was closed", before, after)
	}
}

// A file that makes no sense, that others could have written, or that was written before
// somebody has set the clock, says nothing.
func TestIndexRefused(t *testing.T) {
	t.Parallel()
	root, file := manyDirs(t)
	process(t, file, root, askedFor)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text []byte) func() error {
		return func() error { return os.WriteFile(file, text, 0o600) }
	}
	change := func(at int, by byte) []byte {
		changed := slices.Clone(text)
		changed[at] ^= by
		return changed
	}
	sealed := func(b []byte) []byte {
		binary.LittleEndian.PutUint32(b, crc32.ChecksumIEEE(b[crc32.Size:]))
		return b
	}
	lead := crc32.Size + len(indexFormat) + 1 + len(currentEra().boot)
	for name, spoil := range map[string]func() error{
		"cut off":               write(text[:len(text)/2]),
		"empty":                 write(nil),
		"one bit":               write(change(len(text)-1, 1)),
		"another format":        write(sealed(change(crc32.Size+len(indexFormat)-2, 1))),
		"another boot":          write(sealed(change(lead-1, 1))),
		"a clock set since":     write(sealed(change(lead+4, 1))), // by four seconds
		"cut off, and sealed":   write(sealed(slices.Clone(text[:len(text)-9]))),
		"readable by others":    func() error { return os.Chmod(file, 0o640) },
		"writable by others":    func() error { return os.Chmod(file, 0o602) },
		"a directory of others": func() error { return os.Chmod(filepath.Dir(file), 0o777) },
		"a pipe": func() error {
			return errors.Join(os.Remove(file), unix.Mkfifo(file, 0o600))
		},
		"a link": func() error {
			return errors.Join(os.Rename(file, file+".real"), os.Symlink(file+".real", file))
		},
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if trees, _ := readIndex(file, currentEra()); trees != nil {
			t.Errorf("%s: %d trees are believed", name, len(trees))
		}
		if err := errors.Join(os.RemoveAll(file), os.Chmod(filepath.Dir(file), 0o755), write(text)()); err != nil {
			t.Fatal(err)
		}
		if trees, _ := readIndex(file, currentEra()); len(trees) != 1 {
			t.Errorf("before %s: %d trees are known", name, len(trees))
		}
	}
}

// Steps of the clock that are too small to be told from inaccuracy do not add up: the
// file keeps the lead that the clock had when the first of it was read.
func TestSmallStepsOfTheClock(t *testing.T) {
	t.Parallel()
	root, file := manyDirs(t)
	process(t, file, root, askedFor)
	x := NewIndex(file)
	x.open.Do(x.read)
	first := x.era
	s := x.New("another", askedFor)
	if _, err := s.Scan(root); err != nil {
		t.Fatal(err)
	}
	x.mu.Lock()
	s.trees[root].fresh = 3 * worthSaving // as much as makes it write
	x.mu.Unlock()
	if err := x.Save(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		by   int64
		want int
	}{{0, 2}, {stepped / 2, 2}, {-stepped / 2, 2}, {stepped, 0}, {-stepped, 0}} {
		trees, then := readIndex(file, era{first.boot, first.lead + step.by})
		if len(trees) != step.want || len(trees) > 0 && then != first {
			t.Errorf("after a step of %v: %d trees", time.Duration(step.by), len(trees))
		}
	}
}

// When somebody sets the clock, a Scanner forgets.
func TestClockSet(t *testing.T) {
	t.Parallel()
	root, _ := manyDirs(t)
	s := New(askedFor)
	s.now = func() time.Time { return time.Now().Add(time.Hour) }
	read := func() int {
		if _, err := s.Scan(root); err != nil {
			t.Fatal(err)
		}
		return s.trees[root].fresh
	}
	before := read()
	if again := read(); again != before {
		t.Errorf("%d directories were read again", again-before)
	}
	old := s.trees[root]
	s.lead += 2 * stepped
	if read(); s.trees[root] == old {
		t.Error("what was seen before is believed")
	}
}

// No bytes make the decoder fail, or take more memory than they are worth.
func TestDecoderOfNonsense(t *testing.T) {
	t.Parallel()
	root, file := manyDirs(t)
	put(t, root, "dir1/asked", "dir2/deep/deeper/asked", "link -> dir1")
	process(t, file, root, askedFor)
	trees, _ := readIndex(file, currentEra())
	if len(trees) != 1 {
		t.Fatalf("%d trees", len(trees))
	}
	random := rand.New(rand.NewPCG(3, 0))
	s := New(askedFor)
	for range 3000 {
		b := []byte(trees[0].tree)
		for range 1 + random.IntN(4) {
			b[random.IntN(len(b))] = byte(random.Uint32())
		}
		b = b[:random.IntN(len(b)+1)]
		d := &decoder{text: string(b), query: &s.query}
		if d.nodes(nil); d.taken > len(b)/minNode {
			t.Fatalf("%d directories of %d bytes", d.taken, len(b))
		}
	}
}
