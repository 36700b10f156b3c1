package review

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// To put a file aside, back, or away for good changes the change time of its other names, which is no
// conflict: they can be applied later. What the host does to them is one.
func TestOtherNamesAreNoConflict(t *testing.T) {
	t.Parallel()
	w := newRoot(t, "a 1", "c 1")
	w.check(os.Link(filepath.Join(w.root, "a"), filepath.Join(w.root, "b")))
	w.begin()
	for _, line := range []string{"a 2", "b 3", "c 4"} {
		w.write(w.upper, line)
	}
	conflict := func(after string, want bool) {
		t.Helper()
		r := w.open()
		defer r.Close()
		set, err := r.Changes(context.Background(), anything)
		w.check(err)
		for i := range set.Changes {
			if c := &set.Changes[i]; (c.Conflict != "") != want {
				t.Errorf("after %s: %s: %q", after, c.path, c.Conflict)
			}
		}
	}
	apply := func(p string) {
		t.Helper()
		_, err := w.apply(Choice{Paths: []string{p}})
		w.check(err)
		conflict("the apply of "+p, false)
	}
	apply("a")
	_, _, err := w.shelf.Undo(context.Background())
	w.check(err)
	conflict("an undo", false)
	apply("a")
	apply("c") // removes what the first put aside
	_, _, err = w.shelf.Undo(context.Background())
	w.check(err)
	conflict("another undo", false)
	apply("c")
	w.write(w.root, "b 5")
	conflict("a change of the host", true)
	_, err = w.apply(Choice{Theirs: []string{"b"}})
	w.check(err)
	if got := w.list(w.root); got != "a=2 b=3 c=4" {
		t.Error(got)
	}
}

// After a killed apply, one of two names is somewhere else in the workspace: the other one does not come back to
// the review, also if its directory is shut.
func TestUndoOfOneOfTwoNames(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.write(w.upper, "a text")
	w.write(w.upper, "shut/")
	w.check(os.Link(filepath.Join(w.upper, "a"), filepath.Join(w.upper, "shut/b")))
	w.check(os.Chmod(filepath.Join(w.upper, "shut"), 0o555))
	_, err := w.apply(Choice{})
	w.check(err)
	dir := filepath.Join(w.shelf.dir, "r")
	w.check(os.Rename(filepath.Join(dir, completeFile), filepath.Join(dir, journalFile))) // killed before its end
	w.check(os.Rename(filepath.Join(w.root, "a"), filepath.Join(w.root, "c")))
	r := w.open()
	r.Close()
	if f, err := os.OpenFile(filepath.Join(w.upper, "shut/b"), os.O_WRONLY, 0); err == nil {
		f.WriteString("EVIL")
		f.Close()
	}
	b, err := os.ReadFile(filepath.Join(w.root, "c"))
	if string(b) != "text" {
		t.Errorf("%q %v", b, err)
	}
}
