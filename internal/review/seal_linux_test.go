package review

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A command can write where the reviews of a workspace in its own lie. What it writes there is nobody's review:
// else its journal would have a look write into any directory of the user's.
func TestForgedReview(t *testing.T) {
	t.Parallel()
	w := newRoot(t, "f x")
	foreign := StoreOf(w.root, t.TempDir())
	ctx := context.Background()
	use, err := foreign.Join(ctx, "r", "s", "")
	w.check(err)
	w.check(os.Mkdir(filepath.Join(use.Dir(), slotsDir), 0o700)) // an unused one goes with its last use
	use.Close()
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "not your review") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = w.shelf.Open(ctx, "r")
	refused("open", err)
	_, err = w.shelf.Join(ctx, "r", "s", "")
	refused("join", err)
	if list, err := w.shelf.List(); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}

	// What cannot be read, or not to its end, keeps nobody waiting.
	record := filepath.Join(use.Dir(), recordFile)
	for what, err := range map[string]func() error{
		"a fifo": func() error { return unix.Mkfifo(record, 0o600) },
		"much":   func() error { return errors.Join(os.WriteFile(record, nil, 0o600), os.Truncate(record, 3<<30)) },
		"a link": func() error { return os.Symlink("/dev/zero", record) },
	} {
		w.check(os.Remove(record))
		w.check(err())
		if _, err := w.shelf.Open(ctx, "r"); err == nil {
			t.Errorf("%s was taken for a review", what)
		}
	}

	// In a review of the user's own.
	w.check(os.RemoveAll(use.Dir()))
	w.begin()
	w.check(foreign.write(use.Dir(), journalFile, &journal{Steps: []Step{{Do: "move", From: Place{Host, 0, "planted"}, To: Place{Slot, 0, "0"}}}}))
	_, err = w.shelf.Open(ctx, "r")
	refused("a journal", err)
	w.check(os.Remove(filepath.Join(use.Dir(), journalFile)))

	// Of another name.
	w.check(os.Rename(use.Dir(), use.Dir()+"2"))
	_, err = w.shelf.Open(ctx, "r2")
	refused("renamed", err)

	// Nor does a review begin with what somebody else has put there.
	w.check(os.MkdirAll(filepath.Join(w.shelf.dir, "planted", "kept"), 0o700))
	_, err = w.shelf.Join(ctx, "planted", "s", "")
	refused("a layer", err)
}

// Without a directory for a key, a file of the current directory is none: a command can have made it.
func TestKeyOfCurrentDirectory(t *testing.T) {
	w := newWorkspace(t, "f x")
	t.Chdir(w.root + ".state/reviews")
	if _, err := StoreOf(w.root, "").Open(t.Context(), "r"); err == nil || !strings.Contains(err.Error(), "not your review") {
		t.Error(err)
	}
}

// Nobody is told to remove a review because its key cannot be read.
func TestKeyThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "f x")
	key := filepath.Join(w.shelf.keys, keyFile)
	w.check(os.Rename(key, key+".old"))
	w.check(os.Mkdir(key, 0o700))
	_, err := w.shelf.Join(t.Context(), "r", "s", "")
	if errors.Is(err, errNotOurs) || !errors.Is(err, unix.EISDIR) {
		t.Error(err)
	}
	w.check(os.Remove(key)) // a missing one has sealed nothing
	if _, err := w.shelf.Open(t.Context(), "r"); !errors.Is(err, errNotOurs) {
		t.Error(err)
	}
}

func TestBases(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	state := w.root + ".state"
	if got := Bases(state); !slices.Equal(got, []string{Base(w.root)}) {
		t.Error(got)
	}
	w.check(os.RemoveAll(Base(w.root)))
	if got := Bases(state); len(got) > 0 {
		t.Error(got)
	}
	if got := Bases(""); len(got) > 0 {
		t.Error(got)
	}
}

// A Host can be closed while a command begins. The race detector sees what they share.
func TestCloseWhileACommandBegins(t *testing.T) {
	t.Parallel()
	w := newRoot(t)
	use, err := w.shelf.Join(t.Context(), "r", "s", "")
	w.check(err)
	added := make(chan error)
	go func() {
		added <- use.Add(t.Context(), w.root, filepath.Join(use.Dir(), "kept", "upper"), filepath.Join(use.Dir(), "lock"))
	}()
	for rec := (record{}); len(rec.Layers) == 0; {
		w.check(w.shelf.read(use.Dir(), recordFile, &rec))
	}
	use.Close()
	w.check(<-added)
	if list, err := w.shelf.List(); err != nil || len(list) > 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A command that begins after the Close adds nothing to a review that somebody else may use, and changes no other file
// in the place of the lock.
func TestAddAfterClose(t *testing.T) {
	w := newRoot(t)
	use, err := w.shelf.Join(t.Context(), "r", "s", "")
	w.check(err)
	upper := filepath.Join(use.Dir(), "kept", "upper")
	w.check(os.MkdirAll(upper, 0o755))
	w.check(use.Add(t.Context(), w.root, upper, filepath.Join(use.Dir(), "lock")))
	number, more := use.lock, filepath.Join(filepath.Dir(w.root), "more")
	w.check(os.Mkdir(more, 0o755))
	use.Close()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	w.check(err)
	defer f.Close()
	w.check(os.Chtimes(f.Name(), time.Unix(1, 0), time.Unix(1, 0)))
	err = use.Add(t.Context(), more, upper, filepath.Join(use.Dir(), "lock"))
	info, statErr := f.Stat()
	w.check(statErr)
	if err == nil || !info.ModTime().Equal(time.Unix(1, 0)) {
		t.Errorf("%v; a file with the number %d, of the lock %d, has the time %v", err, f.Fd(), number, info.ModTime())
	}
}

// A directory around the reviews can be no layer: nobody could look at the review, or discard it.
func TestAddAroundReview(t *testing.T) {
	t.Parallel()
	w := newRoot(t)
	use, err := w.shelf.Join(t.Context(), "r", "s", "")
	w.check(err)
	if err = use.Add(t.Context(), filepath.Dir(w.root), filepath.Join(use.Dir(), "upper"), filepath.Join(use.Dir(), "lock")); !errors.Is(err, ErrPlace) {
		t.Error(err)
	}
	use.Close()
	if list, err := w.shelf.List(); err != nil || len(list) > 0 {
		t.Errorf("%+v, %v", list, err)
	}
}
