package execute

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/shared"
)

// preparing is a command with a time limit whose Host take gives.
func preparing(t *testing.T, limit time.Duration, take func(context.Context) (*UsedHost, error)) *Execution {
	dir := t.TempDir()
	config := filepath.Join(dir, "c.hcl")
	if err := os.WriteFile(config, []byte("sandbox \"s\" {\n  limits {\n    timeout = \"1h\"\n  }\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	engine := struct{ shared.Engine }{} // which nobody asks for anything
	e := &Execution{App: &cli.App{Stderr: os.Stderr, Caller: inforce.Caller{Dir: dir, Environ: []string{"HOME=" + dir}, Inject: map[string]shared.Engine{"native": engine}}}, args: []string{"true"}}
	e.Remote = &Remote{Stderr: &Buffer{File: os.Stderr}, Take: func(ctx context.Context, _ *cli.App, _ *setup.Setup) (*UsedHost, error) { return take(ctx) }}
	e.flags.Config = config
	if limit > 0 {
		e.flags.Timeout = &limit
	}
	return e
}

// A server does not keep what it has prepared commands with until their time would be over.
func TestPreparedIsLetGo(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	for name, limit := range map[string]time.Duration{"by the command line": time.Hour, "by the definition": 0} {
		gone := make(chan struct{})
		e := preparing(t, limit, func(ctx context.Context) (*UsedHost, error) {
			runtime.SetFinalizer(ctx, func(context.Context) { close(gone) })
			return nil, refused
		})
		if err := e.prepareInTime(t.Context(), time.Now(), nil); err != refused {
			t.Fatal(err)
		}
		for collected, begin := false, time.Now(); !collected; {
			runtime.GC()
			select {
			case <-gone:
				collected = true
			default:
				if time.Since(begin) > 10*time.Second {
					t.Fatalf("%s: its context is held by a timer", name)
				}
			}
		}
	}
}

// A Host that comes when nobody waits for it any more is given back.
func TestLateHostIsGivenBack(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	e := preparing(t, 0, func(reading context.Context) (*UsedHost, error) {
		cancel()
		<-reading.Done()
		return &UsedHost{Done: func() { close(done) }}, nil
	})
	if err := e.prepareInTime(ctx, time.Now(), nil); err != context.Canceled {
		t.Errorf("%v, want that it was given up", err)
	}
	<-done
}
