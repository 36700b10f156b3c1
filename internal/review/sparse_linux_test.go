package review

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// sparse makes a file of which all is a hole but text at an offset.
func (w *workspace) sparse(p string, size int64, text string, at int64) {
	w.Helper()
	f, err := os.Create(p)
	w.check(err)
	defer f.Close()
	w.check(f.Truncate(size))
	_, err = f.WriteAt([]byte(text), at)
	w.check(err)
}

// threadHasRead is how many bytes the calling thread has read or copied.
func (w *workspace) threadHasRead() (n int64) {
	w.Helper()
	b, err := os.ReadFile("/proc/thread-self/io")
	w.check(err)
	_, err = fmt.Sscanf(string(b), "rchar: %d", &n)
	w.check(err)
	return n
}

// A command gives a large file many names. A look compares no more than its bound, and says so.
func TestManyNames(t *testing.T) {
	t.Parallel()
	w := newRoot(t)
	w.begin()
	for _, dir := range []string{w.root, w.upper} {
		w.check(os.WriteFile(filepath.Join(dir, "a"), []byte("the same"), 0o600))
		w.check(os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b")))
		w.check(os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "c")))
	}
	r := w.open()
	defer r.Close()
	w.check(r.openTrees())
	c := &Comparison{Root: w.root, Upper: r.trees[0].upper, Lower: r.trees[0].lower, used: usage{compared: maxCompared - 20}, Denied: anything.Denied,
		Same: func(p string, used *int64) (bool, error) { return same(r.trees[0].upper, r.trees[0].lower, p, used) }}
	changes, err := c.Changes()
	w.check(err)
	if len(changes) != 1 || changes[0].Line() != `modified "" (not compared)` {
		t.Errorf("%+v", changes)
	}
}

// A command makes a file of hundreds of gigabytes at no cost. It keeps nobody from a review.
func TestSparse(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const size = 300 << 30
	w := newRoot(t)
	w.sparse(filepath.Join(w.root, "edit"), size, "old", size-3)
	w.sparse(filepath.Join(w.root, "same"), size, "end", size-3)
	w.begin()
	w.sparse(filepath.Join(w.upper, "edit"), size, "new", size-3)
	w.sparse(filepath.Join(w.upper, "same"), size, "end", size-3)
	w.sparse(filepath.Join(w.upper, "made"), size, "new", size-3)
	w.sparse(filepath.Join(w.upper, "index"), size, "DIRC", 0)
	w.check(os.Link(filepath.Join(w.upper, "made"), filepath.Join(w.upper, "stays"))) // so the other one is copied

	before := w.threadHasRead()
	r := w.open()
	set, err := r.Changes(context.Background(), anything)
	w.check(err)
	got := ""
	for i := range set.Changes {
		got += fmt.Sprintln(set.Changes[i].Line(), set.Changes[i].Refused)
	}
	if want := "modified edit \nadded    index a file of git that is too large to read, or too large together with others\nadded    made \nadded    stays \n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	_, left, done, err := r.Export(context.Background(), set, nil)
	w.check(err)
	done()
	if len(left) != 4 {
		t.Errorf("left out of a diff: %+v", left)
	}
	_, err = r.Apply(context.Background(), set, Choice{Paths: []string{"edit", "made"}})
	w.check(err)
	for _, name := range []string{"edit", "made"} {
		f, err := os.Open(filepath.Join(w.root, name))
		w.check(err)
		defer f.Close()
		var end [3]byte
		var st unix.Stat_t
		_, err = f.ReadAt(end[:], size-3)
		w.check(err)
		if w.check(unix.Fstat(int(f.Fd()), &st)); st.Size != size || st.Blocks > 1<<10 || string(end[:]) != "new" {
			t.Errorf("%s: %d bytes in %d blocks, at the end %q", name, st.Size, st.Blocks, end)
		}
	}
	r.Close()
	_, _, err = w.shelf.Undo(context.Background())
	w.check(err)
	if _, err := os.Lstat(filepath.Join(w.root, "made")); err == nil {
		t.Error("it was not taken back")
	}
	// A file of git's that is in the workspace is kept as it was when a review begins.
	w.sparse(filepath.Join(w.root, "index"), size, "DIRC", 0)
	w.check(os.RemoveAll(w.shelf.dir))
	w.begin()
	if read := w.threadHasRead() - before; read > 4<<20 {
		t.Errorf("%d bytes were read", read)
	}
}

// Nor do many files that are small enough each. What is copied of them for a diff has their holes.
func TestManySparse(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	w := newWorkspace(t)
	files := maxExportedInAll/maxExported + 1
	for i := range files {
		w.sparse(filepath.Join(w.upper, fmt.Sprint("f", i)), maxExported, "x", 0)
		w.check(os.Mkdir(filepath.Join(w.upper, fmt.Sprint("g", i)), 0o755))
		w.sparse(filepath.Join(w.upper, fmt.Sprint("g", i), "index"), maxGitFiles/16, "DIRC", 0)
	}
	before := w.threadHasRead()
	r := w.open()
	defer r.Close()
	set, err := r.Changes(context.Background(), anything)
	w.check(err)
	whys := map[string]int{}
	for _, c := range set.Changes {
		if c.New.Kind == File {
			whys[c.Refused]++
		}
	}
	if whys["a file of git that is too large to read, or too large together with others"] != files-16 || whys["an index of git that is not understood"] != 16 || whys[""] != files {
		t.Errorf("%v", whys)
	}
	dirs, left, done, err := r.Export(context.Background(), set, []string{"f0", "f1", "f10", "f11", "f12", "f13", "f14", "f15", "f16", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9"})
	w.check(err)
	defer done()
	if len(left) != 1 || left[0].path != "f9" {
		t.Errorf("left out of a diff: %+v", left)
	}
	var st unix.Stat_t
	if w.check(unix.Stat(filepath.Join(dirs[0], "b/f0"), &st)); st.Size != maxExported || st.Blocks > 64 {
		t.Errorf("%d bytes in %d blocks", st.Size, st.Blocks)
	}
	if read := w.threadHasRead() - before; read > maxGitFiles+4<<20 {
		t.Errorf("%d bytes were read", read)
	}
}

// Where a hole begins says nothing of a file's contents.
func TestSameData(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	w := newRoot(t)
	zeros := string(make([]byte, 128<<10))
	for _, f := range []struct {
		text string
		at   int64
		same bool
	}{
		{"", 0, true}, {zeros, 0, true}, {zeros, 512 << 10, true}, {zeros, size - int64(len(zeros)), true},
		{"x", 0, false}, {"x", 500_000, false}, {"x", size - 1, false}, {zeros + "x", 512 << 10, false},
	} {
		w.sparse(filepath.Join(w.root, "f"), size, f.text, f.at)
		for _, other := range []string{"", zeros} {
			dir := t.TempDir()
			w.sparse(filepath.Join(dir, "f"), size, other, 640<<10)
			a, err := openTree(w.root, false)
			w.check(err)
			b, err := openTree(dir, true)
			w.check(err)
			one, err := same(a, b, "f", new(int64))
			two, otherErr := same(b, a, "f", new(int64))
			if one != f.same || two != f.same || err != nil || otherErr != nil {
				t.Errorf("%d bytes at %d, %d zeros: %v, %v, %v, %v", len(f.text), f.at, len(other), one, two, err, otherErr)
			}
			a.close()
			b.close()
		}
	}
	pipe, _, err := os.Pipe()
	w.check(err)
	defer pipe.Close()
	if from, to := data(pipe, 5, 9); from != 5 || to != 9 {
		t.Errorf("of a file that does not tell its holes: %d to %d", from, to)
	}
}
