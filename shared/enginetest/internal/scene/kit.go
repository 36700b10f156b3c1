package scene

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sbxhost/sbxhost/internal/dial"
	"github.com/sbxhost/sbxhost/internal/engine/scratch"
	"github.com/sbxhost/sbxhost/shared"
)

// A Kit is what all scenes of a run share. enginetest.Options describes its exported fields.
type Kit struct {
	Engine shared.Engine
	Info   shared.Info

	Session, Prepared, Brief bool
	EngineOptions            json.RawMessage
	Program, Name            string
	Launch                   func(ctx context.Context) (*dial.Process, error)
	StreamBytes              int64
	CaseTimeout              time.Duration

	Dir     string // where the scenes lie
	scratch *scratch.Dir
	Home    string // the caller's; "" where there is none
	Random  string
}

// Unconfined reports whether the engine does not isolate.
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
	// If possible not under /tmp: a sandbox with a private /tmp would then seem to hide more than
	// it does.
	bases := []string{"/var/tmp", os.TempDir()}
	if cache, err := os.UserCacheDir(); err == nil && os.MkdirAll(cache, 0o700) == nil {
		bases = append([]string{cache}, bases...)
	}
	for _, base := range bases {
		if k.scratch, err = scratch.New(base, "probe", nil); err == nil {
			k.Dir, err = filepath.EvalSymlinks(k.scratch.Path)
			return err
		}
	}
	return fmt.Errorf("a directory to work in: %w", err)
}

// Close removes the files of the kit.
func (k *Kit) Close() error {
	defer k.scratch.Remove()
	return scratch.RemoveTree(k.Dir)
}

// Answered calls an engine, which may never answer.
func Answered[T any](ctx context.Context, k *Kit, call string, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, k.Limit(), fmt.Errorf("no answer within %v", k.Limit()))
	defer cancel()
	value, err := returned(ctx, obeyPatience, func() (T, error) { return f(ctx) })
	if err != nil {
		err = fmt.Errorf("enginetest: %s: %w", call, cmp.Or(context.Cause(ctx), err))
	}
	return value, err
}
