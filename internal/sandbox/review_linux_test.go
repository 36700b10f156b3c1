package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/sbxhost/sbxhost/internal/facts"
	"github.com/sbxhost/sbxhost/internal/launch"
	"github.com/sbxhost/sbxhost/internal/review"
	"github.com/sbxhost/sbxhost/internal/view"
)

// While a command of a review ends and its Host leaves the review, another may begin, in a sandbox of another
// definition: then the Host does not leave it.
func TestLeaveReviewWhileACommandBegins(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "w")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	store := review.StoreOf(root, root+".state")
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(Config{Machine: &facts.Machine{}})
		ended, begins := &slot{lock: launch.NewLock()}, &slot{lock: launch.NewLock()}
		p.slots["ended"] = ended
		use, err := store.Join(t.Context(), "r", "s", "")
		if err != nil {
			t.Fatal(err)
		}
		defer p.reviews.close()
		p.reviews.uses["r"] = use

		if err := ended.lock.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		left := make(chan error)
		go func() { left <- p.leaveReview(t.Context(), "r") }()
		synctest.Wait()
		def := view.Definition{Review: "r"}
		if _, err := p.joinReview(t.Context(), "s", &def); err != nil {
			t.Fatal(err)
		}
		begins.current = &Handle{Definition: def, running: new(atomic.Int64)}
		begins.current.running.Add(1)
		p.mu.Lock()
		p.slots["begins"] = begins
		p.mu.Unlock()
		ended.lock.Release()
		if err := <-left; !errors.Is(err, review.ErrInUse) || p.reviews.uses["r"] != use {
			t.Errorf("left a review in which a command runs: %v", err)
		}
	})
}
