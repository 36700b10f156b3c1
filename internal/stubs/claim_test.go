package stubs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/testing/programs"
)

// two are Registries that know nothing of each other, as those of two users.
func (s scene) two(t testing.TB) (a, b *Registry) {
	a, b = New(), New()
	t.Cleanup(func() {
		a.Close()
		b.Close()
	})
	return a, b
}

// The last of two removes, whoever has made it, and what lay there before stays.
func TestSharedByTwo(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"first", "second"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			a, b := s.two(t)
			if err := errors.Join(os.Mkdir(s.tree+"/own", 0o755), os.WriteFile(s.tree+"/own.txt", []byte(".\n"), 0o644)); err != nil {
				t.Fatal(err)
			}
			names := []string{"a/b", "own", "file:own.txt", "file:f", "own/x"}
			first, last := s.hold(a, names...), b.Hold(context.Background(), s.wanted(names...))
			more := b.Hold(context.Background(), s.wanted("a/c"))
			if len(last.Unheld)+len(more.Unheld) > 0 {
				t.Fatal(last.Unheld, more.Unheld)
			}
			if order == "second" {
				first, last = last, first
			}
			first.Release()
			s.expect(t, "a", "a/b", "a/c", "f", "own", "own/x", "own.txt")
			more.Release()
			s.expect(t, "a", "a/b", "f", "own", "own/x", "own.txt")
			last.Release()
			s.expect(t, "own", "own.txt")
		})
	}
}

// A directory with another's stub in it is a stub, too: it stays for whom it alone was wanted by.
func TestAroundAnothersStub(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	a, b := s.two(t)
	both, outer := s.hold(a, "a", "file:a/f"), s.hold(b, "a")
	both.Release()
	s.expect(t, "a")
	outer.Release()
	s.expect(t)
}

// What one had to leave to another, who is killed, the next one removes. A child that has not
// executed anything yet has a copy of the claims of who started it, which counts for nothing.
func TestLeftToOneWhoIsKilled(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r := New()
	h := s.hold(r, "a/b", "file:f")
	p, err := s.start(t, "a/b", "file:f")
	if err != nil {
		t.Fatal(err)
	}
	forked, err := unix.Dup(r.stubs[s.tree+"/f"].fd)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(forked)
	h.Release()
	r.Close()
	p.kill()
	s.expect(t, "a", "a/b", "f")
	s.hold(New(), "a/b", "file:f").Release()
	s.expect(t)
}

// A process that is killed gives up its claims one by one. Who removes what it can at that
// moment leaves the mark of a directory in which there is no more than another stub.
func TestReleaseWhileAnotherIsKilled(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	a, b := s.two(t)
	h := s.hold(b, "d/x")
	s.hold(a, "d/x")
	hostpath.Unlock(a.stubs[s.tree+"/d"].fd)
	h.Release()
	s.expect(t, "d", "d/x")
	hostpath.Unlock(a.stubs[s.tree+"/d/x"].fd)
	clear(a.stubs)
	s.hold(b, "d/x").Release()
	s.expect(t)
}

// A stub that somebody keeps locked cannot be relied on: it is said not to be
// held. Of many, one is waited for.
func TestLockedByAnother(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	a, b := s.two(t)
	names := []string{"x", "y"}
	h := s.hold(a, names...)
	defer h.Release()
	for _, name := range names {
		f, err := os.Open(s.tree + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		defer unix.Flock(int(f.Fd()), unix.LOCK_UN)
		hostpath.Unlock(a.stubs[s.tree+"/"+name].fd) // as in the moment between two locks
		a.stubs[s.tree+"/"+name].fd = -1
		if err := hostpath.TryLock(int(f.Fd()), unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
	}
	denied := b.Hold(context.Background(), s.wanted(names...))
	defer denied.Release()
	first, second := denied.Unheld[s.tree+"/x"], denied.Unheld[s.tree+"/y"]
	if !errors.Is(first, unix.EWOULDBLOCK) || !errors.Is(second, first) {
		t.Errorf("%v; %v", first, second)
	}
}

// A real user and root in one directory.
func TestTwoUsers(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can be two users")
	}
	const nobody = 65534
	s := newScene(t)
	theirs := s
	if err := os.Chown(s.tree, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	for dir := s.tree; dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o005 != 0o005 {
			if err := os.Chmod(dir, info.Mode().Perm()|0o055); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The program must be one that they can execute.
	theirs.program = copyOfSelf(t, filepath.Dir(s.tree))
	theirs.user = &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: true}
	names := []string{"a/b", "file:f", "c"}
	r := New()
	defer r.Close()
	for range 3 {
		h := s.hold(r, names...)
		p, err := theirs.start(t, names...)
		if err != nil {
			t.Fatal(err)
		}
		h.Release()
		s.expect(t, "a", "a/b", "c", "f")
		if err := p.end(); err != nil {
			t.Fatal(err)
		}
		s.expect(t)

		if p, err = theirs.start(t, names...); err != nil {
			t.Fatal(err)
		}
		h = s.hold(r, names...)
		if err := p.end(); err != nil {
			t.Fatal(err)
		}
		s.expect(t, "a", "a/b", "c", "f")
		h.Release()
		s.expect(t)
	}
}

func copyOfSelf(t testing.TB, dir string) string {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "program")
	if err := programs.Write(path, text); err != nil {
		t.Fatal(err)
	}
	return path
}

// Many who know nothing of each other come and go, and whoever holds a stub has
// it there until it gives it up.
func TestManyRegistries(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			r := New()
			defer r.Close()
			for n := range 100 {
				names := []string{"a/b", "c", "file:f", fmt.Sprintf("own%d/x", n%3)}
				h := r.Hold(context.Background(), s.wanted(names...))
				if len(h.Unheld) > 0 {
					t.Errorf("%d: %v", i, h.Unheld)
				}
				for _, w := range s.wanted(names...) {
					if mine := r.stubs[w.Path]; mine == nil {
						t.Errorf("%d: %s is not held", i, w.Path)
					} else if !mine.liesAt(unix.AT_FDCWD, w.Path) {
						t.Errorf("%d: %s is gone while it is held", i, w.Path)
					}
				}
				h.Release()
			}
		})
	}
	wg.Wait()
	s.expect(t)
}
