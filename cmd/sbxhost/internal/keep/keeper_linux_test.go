package keep

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/internal/serve"
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

// The first command of a kept session whose server was killed is told that its processes are gone, as after the loss of
// an engine; not that after a server that ended it.
func TestEnterAfterKill(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	a := &cli.App{Stderr: &said, Caller: inforce.Caller{Environ: []string{"HOME=" + t.TempDir()}}}
	dir, err := session.KeeperDir(a.LookupEnv, "s", func() []string { return nil })
	if err != nil {
		t.Fatal(err)
	}
	killed, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, serve.Socket), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	killed.SetUnlinkOnClose(false)
	if err := killed.Close(); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		keep bool
		want int
	}{{false, 0}, {true, 1}, {true, 0}} { // each asks first as one that shares no processes
		said.Reset()
		s := server{keepers: map[string]*keeper{}}
		k, err := s.enter(t.Context(), a, "s", c.keep, nil)
		if err != nil {
			t.Fatal(err)
		}
		k.lock.Release()
		s.all.Wait()
		if strings.Count(said.String(), "the session's processes ended, and new ones start") != c.want {
			t.Errorf("command %d: said %q, want it %d times", i, said.String(), c.want)
		}
	}
}
