package stubs

import (
	"context"
	"os"
	"testing"
)

// While a command could follow a stub to the cache, none goes there or comes
// from there, whoever it is that runs the command.
func TestSuspended(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"another", "itself"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			r := New(s.cache)
			defer r.Close()
			suspending := New(s.cache)
			defer suspending.Close()
			if who == "itself" {
				suspending = r
			}
			h := s.hold(r, "a", "file:b")
			var all []*Hold
			for range 2 {
				// One that has no stub of its own suspends the cache all the same.
				e := suspending.Hold(context.Background(), nil)
				if err := e.SuspendCache(context.Background()); err != nil {
					t.Fatal(err)
				}
				all = append(all, e)
			}
			h.Release()
			s.expect(t)
			all[0].Release()
			s.hold(r, "a").Release()
			if kept := s.kept(t); len(kept) > 0 {
				t.Errorf("cached while suspended: %q", kept)
			}
			all[1].Release()
			all[1].Release()
			h = s.hold(r, "a")
			h.Release()
			if kept := s.kept(t); len(kept) != 1 {
				t.Errorf("kept when covered: %q", kept)
			}
			again := suspending.Hold(context.Background(), nil)
			if err := again.SuspendCache(context.Background()); err != nil {
				t.Fatal(err)
			}
			before := inode(t, s.kept(t)[0])
			h = s.hold(r, "a")
			if inode(t, s.kept(t)[0]) != before {
				t.Error("a stub came from the cache")
			}
			h.Release()
			again.Release()
			s.expect(t)
		})
	}
}

// Where it cannot be said, the command is not to run.
func TestSuspendWithoutACache(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	if err := os.MkdirAll(s.cache, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.cache, 0o777); err != nil {
		t.Fatal(err)
	}
	if New(s.cache).Hold(context.Background(), nil).SuspendCache(context.Background()) == nil {
		t.Error("a directory that others can write to will do")
	}
	if err := New("").Hold(context.Background(), nil).SuspendCache(context.Background()); err != nil {
		t.Errorf("there is nothing to suspend: %v", err)
	}
}
