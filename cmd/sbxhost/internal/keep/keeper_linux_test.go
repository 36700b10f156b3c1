package keep

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/internal/session"
)

// A waitedFor context says when somebody waits for it.
type waitedFor struct {
	context.Context
	begin func()
}

func (w waitedFor) Done() <-chan struct{} {
	w.begin()
	return w.Context.Done()
}

// A client that comes while sessions rm ends its session and removes it begins it again.
func TestEnterWhileRemoved(t *testing.T) {
	t.Parallel()
	a := &cli.App{Caller: inforce.Caller{Environ: []string{"HOME=" + t.TempDir()}}}
	dir, err := session.KeeperDir(a.LookupEnv, "s", func() []string { return nil })
	if err != nil {
		t.Fatal(err)
	}
	ended, waits := make(chan struct{}), make(chan struct{})
	s := server{keepers: map[string]*keeper{dir: {ended: ended}}}
	go func() {
		<-waits
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		delete(s.keepers, dir)
		s.mu.Unlock()
		close(ended)
	}()
	k, err := s.enter(waitedFor{t.Context(), sync.OnceFunc(func() { close(waits) })}, a, "s", true, nil)
	if err != nil {
		t.Fatal(err)
	}
	k.lock.Release()
	s.all.Wait()
}
