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

// Hold makes stubs for missing paths, on which an engine can mount until the command's end. If a stub is
// not possible, it removes the path from the Spec if a command cannot create it either, and else refuses
// the command. Otherwise the first of two commands could prevent a stub, with a full disk or a
// directory's mode, and the second could undo that and create the path.
func (m *Machine) Hold(ctx context.Context, out *Resolution) (*stubs.Hold, error) {
	var wanted []stubs.Stub
	for _, h := range out.Holds {
		wanted = append(wanted, stubs.Stub(h))
	}
	hold := m.Stubs.Hold(ctx, wanted)
	if err := ctx.Err(); err != nil {
		hold.Release()
		return nil, err
	}
	if len(hold.Unheld) == 0 {
		return hold, nil
	}
	for _, p := range slices.Sorted(maps.Keys(hold.Unheld)) {
		if cause := hold.Unheld[p]; m.canCreate(p, cause) {
			if errors.Is(cause, syscall.ENOTDIR) {
				// A file is in the place of a directory, and a command may replace it.
				out.Notes = append(out.Notes, fmt.Sprintf("a command can create %s, which should not exist for it: %v", hostpath.Quote(p), cause))
				continue
			}
			hold.Release()
			hint := shortageHint(cause)
			if errors.Is(cause, syscall.EWOULDBLOCK) {
				hint = "a process has locked what lies there: end it, and remove what it made"
			}
			if hint != "" {
				return nil, &shared.Error{Kind: shared.ErrUnavailable, Message: fmt.Sprintf("no stub can hold the path %s, which a command must not create: %v", hostpath.Quote(p), cause), Hint: hint}
			}
			return nil, view.Invalid(originOf(&out.Spec, p), fmt.Sprintf("a command could create %s, which must not exist for it, and no stub can hold the path: %v", hostpath.Quote(p), cause),
				"make it possible to create a file there, say read_only = true, or leave it out")
		}
	}
	ignoreMissing(&out.Spec, hold.Unheld)
	return hold, nil
}

// originOf is the reason to protect or hide a path.
func originOf(spec *shared.Spec, p string) string {
	hostPath := view.HostPaths(spec.Table)
	for i := range spec.Table {
		if at := hostPath(&spec.Table[i]); at != "" && paths.Inside(p, at) {
			return spec.Table[i].Why
		}
	}
	return "workspace"
}

// ignoreMissing has the engine pass over missing paths without a stub.
func ignoreMissing(spec *shared.Spec, unheld map[string]error) {
	hostPath := view.HostPaths(spec.Table)
	spec.Table = slices.Clone(spec.Table)
	for i := range spec.Table {
		e := &spec.Table[i]
		if at := hostPath(e); unheld[at] != nil && Follow(at).Kind == view.Absent {
			e.Missing = shared.MissingIgnore
		}
	}
}

// canCreate reports whether a command could create p, which could not be created now because of
// cause: by its permissions, perhaps after it changes modes of its own directories or frees space.
func (m *Machine) canCreate(p string, cause error) bool {
	switch {
	case errors.Is(cause, syscall.EROFS), errors.Is(cause, syscall.ENAMETOOLONG), errors.Is(cause, syscall.EPERM):
		return false // the file system is read-only, or a directory immutable
	case errors.Is(cause, syscall.ELOOP):
		return true // a directory on the way has just become a symlink
	}
	for dir := range paths.Up(filepath.Dir(p)) {
		info, err := os.Lstat(dir)
		if err != nil {
			continue
		}
		if info.Sys().(*syscall.Stat_t).Uid == m.uid() || m.uid() == 0 {
			return true
		}
		// In another user's directory, a command could do what the caller could, unless commands have
		// another user.
		return m.Owner != nil && info.Mode().Perm()&0o022 != 0 || !errors.Is(cause, fs.ErrPermission)
	}
	return false
}
