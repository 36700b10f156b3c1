package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/approvals"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/stubs"
)

// stateDir is where sbxhost keeps what must outlast it, for this user alone:
// $XDG_STATE_HOME/sbxhost, else ~/.local/state/sbxhost; empty without either.
func (c caller) stateDir() string {
	if dir, _ := c.lookupEnv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "sbxhost")
	}
	if c.home == "" {
		return ""
	}
	return filepath.Join(c.home, ".local/state/sbxhost")
}

// concealed is what sbxhost keeps of its own, of which commands see nothing. Who can
// open a file can lock it, for as long as it likes, and the locks there are those
// that every approval, every line of the log and every other command of this user
// takes; it would read what was approved and trusted, and what other commands were
// given, too.
type concealed struct {
	path, origin string
	dir          bool // else a file
}

// remembered lists them, each where it leads to, and what is there: nil for nothing.
func (r *resolver) remembered(each func(c concealed, info fs.FileInfo)) {
	const origin = "XDG_STATE_HOME (what sbxhost remembers)"
	var list []concealed
	if dir := r.caller.stateDir(); dir != "" {
		list = append(list, concealed{dir, origin, true})
	}
	if r.owner != nil && r.owner.home != "" {
		list = append(list, concealed{filepath.Join(r.owner.home, ".local/state/sbxhost"), origin, true})
	}
	for _, record := range r.recorded {
		if record.file {
			list = append(list, concealed{record.path, record.attribute + " (" + record.what + ")", false})
		}
	}
	for _, c := range list {
		led, info, err := follow(c.path)
		// A log that is no file is refused when it is written to.
		if err == nil && led != "/" && (c.dir || info == nil || info.Mode().IsRegular()) {
			c.path = led
			each(c, info)
		}
	}
}

// hideRemembered hides it all, of the caller and of whom commands run as. A directory is
// made before it is hidden: it can come to be while a command runs.
func (r *resolver) hideRemembered(h *hiding) {
	r.remembered(func(c concealed, info fs.FileInfo) {
		host := h.spec.Filesystem == shared.FilesystemHost && r.inHostView(h.mounts, c.path)
		if c.dir && info == nil && (h.shown(c.path) || host) && !h.creatable(c.path) {
			if approvals.MakeDir(c.path) != nil {
				return // nobody else can make it, either
			}
			info, _ = os.Lstat(c.path)
		}
		if h.shown(c.path) && (info != nil || c.dir && h.creatable(c.path)) || host && info != nil {
			h.hide(c.path, c.dir, c.origin)
		}
		// What a bind names in it is hidden there.
		for _, have := range slices.Clone(h.spec.Mounts) {
			if have.Kind != shared.MountTmpfs && have.Source != c.path && inside(c.path, have.Source) {
				at, err := os.Lstat(have.Source)
				h.hide(have.Source, err != nil || at.IsDir(), c.origin)
			}
		}
	})
}

// hold makes sure that what is missing can be mounted on until the command has
// ended. What a command cannot create either is taken out of the Spec. The rest
// is refused: of two commands, the first could see to it that nothing can be held
// - by filling a disk, by a directory's mode -, and the second undo that and
// create what it likes.
func (h *Host) hold(ctx context.Context, out *resolved) (*stubs.Hold, error) {
	hold := h.places.Hold(ctx, out.places)
	if err := ctx.Err(); err != nil {
		hold.Release()
		return nil, err
	}
	if hold.Unaccounted != nil {
		h.logger.Debug("what holds the place of missing paths is not written down", "error", hold.Unaccounted)
	}
	if out.exposes {
		if err := hold.Expose(ctx); err != nil {
			hold.Release()
			return nil, attributeError("bind_paths", fmt.Sprintf("what sbxhost remembers lies in what a command can write to, and there it cannot be said that one runs: %v", err),
				"bind less, or set XDG_STATE_HOME to another directory")
		}
	}
	if len(hold.Unheld) == 0 {
		return hold, nil
	}
	for _, p := range slices.Sorted(maps.Keys(hold.Unheld)) {
		if cause := hold.Unheld[p]; h.resolver.canCreate(p, cause) {
			if errors.Is(cause, syscall.ENOTDIR) {
				// Above it is a file, which is a command's to replace.
				out.notes = append(out.notes, fmt.Sprintf("a command can create %s, which should be kept from it: %v", p, cause))
				continue
			}
			hold.Release()
			return nil, attributeError(originOf(&out.spec, out.masks, p), fmt.Sprintf("a command could create %s, which must be kept from it, and nothing can hold its place: %v", p, cause),
				"see to it that something can be created there, say read_only = true, or leave it out")
		}
	}
	dropMissing(&out.spec, hold.Unheld)
	return hold, nil
}

// originOf is what asked for a path to be guarded or hidden.
func originOf(spec *shared.Spec, masks []shared.Mask, p string) string {
	for _, m := range spec.Mounts {
		if m.Source != "" && inside(p, m.Source) && !strings.HasPrefix(m.Origin, keptPrefix) {
			return m.Origin
		}
	}
	for _, m := range masks {
		if inside(p, m.Path) {
			return m.Origin
		}
	}
	return "workspace"
}

// dropMissing takes what does not exist and is not held out of the Spec.
func dropMissing(spec *shared.Spec, unheld map[string]error) {
	missing := func(p string) bool {
		_, err := os.Lstat(p)
		return errors.Is(err, fs.ErrNotExist)
	}
	for p := range unheld {
		if missing(p) {
			spec.Mounts = slices.DeleteFunc(spec.Mounts, func(m shared.Mount) bool { return m.Source != "" && inside(p, m.Source) })
		}
	}
	// What is mounted on the way to it is not needed, and perhaps not there.
	spec.Mounts = slices.DeleteFunc(spec.Mounts, func(m shared.Mount) bool {
		return strings.HasPrefix(m.Origin, keptPrefix) && missing(m.Source)
	})
}

// canCreate reports whether a command could create p, of which cause says why
// it could not be created now: by its permissions, if need be after it has
// changed those of its own directories or made room.
func (r *resolver) canCreate(p string, cause error) bool {
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
		if !ok || st.Uid == r.uid() || r.uid() == 0 {
			return true
		}
		// Of another's directory the caller's own attempt has told, unless
		// commands are somebody else.
		return r.owner != nil && info.Mode().Perm()&0o022 != 0 || !errors.Is(cause, fs.ErrPermission)
	}
}
