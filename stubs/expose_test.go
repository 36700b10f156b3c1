package stubs

import (
	"context"
	"os"
	"testing"
)

// While a command could follow a stub to the shelf, none goes there or comes
// from there, whoever it is that runs the command.
func TestExposed(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"another", "itself"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			r := New(s.ledgers)
			defer r.Close()
			exposing := New(s.ledgers)
			defer exposing.Close()
			if who == "itself" {
				exposing = r
			}
			h := s.hold(t, r, "a", "file:b")
			var all []*Hold
			for range 2 {
				// One that has no stub of its own is exposed all the same.
				e := exposing.Hold(context.Background(), nil)
				if err := e.Expose(context.Background()); err != nil {
					t.Fatal(err)
				}
				all = append(all, e)
			}
			h.Release()
			s.expect(t)
			all[0].Release()
			s.hold(t, r, "a").Release()
			if kept := s.kept(t); len(kept) > 0 {
				t.Errorf("kept while exposed: %q", kept)
			}
			all[1].Release()
			all[1].Release()
			h = s.hold(t, r, "a")
			h.Release()
			if kept := s.kept(t); len(kept) != 1 {
				t.Errorf("kept when covered: %q", kept)
			}
			again := exposing.Hold(context.Background(), nil)
			if err := again.Expose(context.Background()); err != nil {
				t.Fatal(err)
			}
			before := inode(t, s.kept(t)[0])
			h = s.hold(t, r, "a")
			if inode(t, s.kept(t)[0]) != before {
				t.Error("a stub came from the shelf")
			}
			h.Release()
			again.Release()
			s.expect(t)
		})
	}
}

func TestExposedStaysInALedgerThatBeginsAnew(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r, other := New(s.ledgers), New(s.ledgers)
	defer r.Close()
	defer other.Close()
	e := r.Hold(context.Background(), nil)
	if err := e.Expose(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.size = maxLedger
	s.hold(t, r, "a").Release()
	s.hold(t, other, "b").Release()
	if kept := s.kept(t); len(kept) > 0 {
		t.Errorf("kept while exposed: %q", kept)
	}
	e.Release()
}

// Where it cannot be said, the command is not to run.
func TestExposeWithoutALedger(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	if err := os.MkdirAll(s.ledgers, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.ledgers, 0o777); err != nil {
		t.Fatal(err)
	}
	if New(s.ledgers).Hold(context.Background(), nil).Expose(context.Background()) == nil {
		t.Error("a directory that others can write to will do")
	}
	if err := New("").Hold(context.Background(), nil).Expose(context.Background()); err != nil {
		t.Errorf("there is nothing to be exposed: %v", err)
	}
}

func TestExposes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": false, exposedLine: true, exposedLine + coveredLine: false, coveredLine + exposedLine: true,
		exposedLine + "d 1 2 \"/x\"\n": true, exposedLine + "cover": true, "expo": false, "exposed": false,
	} {
		if got := exposes(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
