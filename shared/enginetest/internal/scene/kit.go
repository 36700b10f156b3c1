package scene

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/dial"
)

// A kit is what all scenes of a run share. What is exported of it is told with enginetest.Options.
type Kit struct {
	Engine shared.Engine
	Info   shared.Info

	Session, Prepared, Brief bool
	EngineOptions            json.RawMessage
	Program, Name            string
	Launch                   func(ctx context.Context) (*dial.Launched, error)
	StreamBytes              int64
	RuleTimeout              time.Duration

	Dir    string   // where the scenes lie
	inUse  *os.File // dir, locked
	Home   string   // the caller's; "" where there is none
	Random string
	victim victim
}

// Unconfined says whether the engine does not isolate.
func (k *Kit) Unconfined() bool { return k.Info.Features.Has(shared.FeatureUnconfined) }

// Settle finds what a run needs of this machine.
func (k *Kit) Settle() (err error) {
	if k.Program == "" {
		k.Program, err = os.Executable()
	}
	if err == nil {
		k.Program, err = filepath.EvalSymlinks(k.Program)
	}
	if err != nil {
		return fmt.Errorf("finding the program to run inside: %w", err)
	}
	k.Random = rand.Text()[:10]
	k.Home, _ = os.UserHomeDir()
	if k.Dir, err = sceneDir(); err != nil {
		return err
	}
	if k.inUse, err = os.Open(k.Dir); err == nil {
		_ = syscall.Flock(int(k.inUse.Fd()), syscall.LOCK_SH) // what cannot be locked is kept for longer
	}
	return err
}

// Close removes what was made.
func (k *Kit) Close() error {
	if k.victim.child != nil {
		k.victim.child.End()
	}
	defer k.inUse.Close()
	return RemoveTree(k.Dir)
}

// Opens tries to open the sandbox that every case starts from.
func (k *Kit) Opens(ctx context.Context) error {
	sc := k.Layout(Place{}, "options")
	defer sc.Close()
	if err := sc.Plant(); err != nil {
		return err
	}
	sandbox, err := Answered(ctx, "Open", func(ctx context.Context) (shared.Sandbox, error) { return k.Engine.Open(ctx, sc.NewTrial().Spec) })
	if err == nil {
		err = sandbox.Close(ctx)
	}
	return err
}

// Answered calls an engine, which may never answer.
func Answered[T any](ctx context.Context, call string, f func(context.Context) (T, error)) (answer T, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, attemptTimeout, fmt.Errorf("no answer within %v", attemptTimeout))
	defer cancel()
	failed, err := returned(ctx, func() (err error) {
		answer, err = f(ctx)
		return err
	})
	if failed != nil && ctx.Err() != nil {
		failed = context.Cause(ctx)
	}
	if err = cmp.Or(err, failed); err != nil {
		var none T
		return none, fmt.Errorf("enginetest: %s: %w", call, err)
	}
	return answer, nil
}

const (
	DirPrefix = "sbxhost-probe-"
	// staleAfter is older than any directory is when it is not locked yet.
	staleAfter = 10 * time.Minute
)

// sweep removes what runs of this user have left in a directory that were killed.
func sweep(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || !strings.HasPrefix(e.Name(), DirPrefix) || time.Since(info.ModTime()) < staleAfter {
			continue
		}
		dir := filepath.Join(base, e.Name())
		if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
			continue
		}
		if f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NOFOLLOW, 0); err == nil {
			if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
				RemoveTree(dir)
			}
			f.Close()
		}
	}
}

// sceneDir is not under /tmp if that can be: a sandbox with a private /tmp would
// then hold more than it does.
func sceneDir() (string, error) {
	var errs []error
	cache, err := os.UserCacheDir()
	if err == nil {
		err = os.MkdirAll(cache, 0o700)
	}
	sweep("/var/tmp") // where one probe has a directory in any case
	for _, base := range []string{cache, "/var/tmp", os.TempDir()} {
		if err != nil || base == "" {
			errs, err = append(errs, err), nil
			continue
		}
		sweep(base)
		dir, mkdirErr := os.MkdirTemp(base, DirPrefix)
		if mkdirErr == nil {
			return filepath.EvalSymlinks(dir)
		}
		errs = append(errs, mkdirErr)
	}
	return "", fmt.Errorf("a directory to work in: %w", errors.Join(errs...))
}
