//go:build unix

package facts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/stubs"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// Hold makes sure that what is missing can be mounted on until the command has
// ended. What a command cannot create either is taken out of the Spec. The rest
// is refused: of two commands, the first could see to it that nothing can be held
// - by filling a disk, by a directory's mode -, and the second undo that and
// create what it likes.
func (m *Machine) Hold(ctx context.Context, out *Resolved) (*stubs.Hold, error) {
	hold := m.Stubs.Hold(ctx, stubsOf(out.Holds))
	if err := ctx.Err(); err != nil {
		hold.Release()
		return nil, err
	}
	if out.StateInReach {
		if err := hold.SuspendCache(ctx); err != nil {
			hold.Release()
			return nil, view.Invalid("bind_paths", fmt.Sprintf("what is remembered about sandboxes lies in what a command can write to, and there it cannot be said that one runs: %v", err),
				"bind less, or set XDG_STATE_HOME to another directory")
		}
	}
	if len(hold.Unheld) == 0 {
		return hold, nil
	}
	for _, p := range slices.Sorted(maps.Keys(hold.Unheld)) {
		if cause := hold.Unheld[p]; m.canCreate(p, cause) {
			if errors.Is(cause, syscall.ENOTDIR) {
				// Above it is a file, which is a command's to replace.
				out.Notes = append(out.Notes, fmt.Sprintf("a command can create %s, which should be kept from it: %v", hostpath.Quote(p), cause))
				continue
			}
			hold.Release()
			if hint := shortageHint(cause); hint != "" {
				return nil, &shared.Error{Kind: shared.ErrUnavailable, Message: fmt.Sprintf("the place of %s, which a command must not create, cannot be held: %v", hostpath.Quote(p), cause), Hint: hint}
			}
			return nil, view.Invalid(originOf(&out.Spec, p), fmt.Sprintf("a command could create %s, which must be kept from it, and nothing can hold its place: %v", hostpath.Quote(p), cause),
				"see to it that something can be created there, say read_only = true, or leave it out")
		}
	}
	dropMissing(&out.Spec, hold.Unheld)
	return hold, nil
}

func stubsOf(holds []view.Hold) []stubs.Stub {
	list := make([]stubs.Stub, len(holds))
	for i, h := range holds {
		list[i] = stubs.Stub(h)
	}
	return list
}

// originOf is what asked for a path to be protected or hidden.
func originOf(spec *shared.Spec, p string) string {
	hostPath := view.HostPaths(spec.Table)
	for i := range spec.Table {
		if at := hostPath(&spec.Table[i]); at != "" && paths.Inside(p, at) {
			return spec.Table[i].Why
		}
	}
	return "workspace"
}

// dropMissing takes what does not exist and is not held out of the Spec.
func dropMissing(spec *shared.Spec, unheld map[string]error) {
	hostPath := view.HostPaths(spec.Table)
	spec.Table = slices.DeleteFunc(slices.Clone(spec.Table), func(e shared.Entry) bool {
		at := hostPath(&e)
		if _, ok := unheld[at]; !ok {
			return false
		}
		_, err := os.Lstat(at)
		return errors.Is(err, fs.ErrNotExist)
	})
}

// canCreate reports whether a command could create p, of which cause says why
// it could not be created now: by its permissions, if need be after it has
// changed those of its own directories or made room.
func (m *Machine) canCreate(p string, cause error) bool {
	switch {
	case errors.Is(cause, syscall.EROFS), errors.Is(cause, syscall.ENAMETOOLONG), errors.Is(cause, syscall.EPERM):
		return false // a file system that is read-only, a directory that is immutable
	case errors.Is(cause, syscall.ELOOP):
		return true // a directory on the way became a symlink at this moment
	}
	for dir := filepath.Dir(p); ; dir = filepath.Dir(dir) {
		info, err := os.Lstat(dir)
		if err != nil && dir != "/" {
			continue
		} else if err != nil {
			return false
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Uid == m.uid() || m.uid() == 0 {
			return true
		}
		// Of another's directory the caller's own attempt has told, unless
		// commands are somebody else.
		return m.Owner != nil && info.Mode().Perm()&0o022 != 0 || !errors.Is(cause, fs.ErrPermission)
	}
}
