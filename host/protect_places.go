package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

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

// hold makes sure that what is missing can be mounted on until the command has
// ended. What cannot be held is taken out of the Spec and, where a command could
// create it, reported.
func (h *Host) hold(out *resolved) (*stubs.Hold, error) {
	if h.places == nil || len(out.places) == 0 {
		h.release(out, out.places, errors.New("there is no directory to keep account of it in; set HOME or XDG_STATE_HOME"))
		return nil, nil
	}
	hold, err := h.places.Hold(out.places)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		// No state can be kept: nothing that is missing is held.
		h.release(out, out.places, err)
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for p, err := range hold.Unheld {
		h.release(out, []stubs.Stub{{Path: p}}, err)
	}
	return hold, nil
}

// release takes what does not exist and is not held out of the Spec.
func (h *Host) release(out *resolved, places []stubs.Stub, cause error) {
	var open []string
	for _, s := range places {
		if _, err := os.Lstat(s.Path); err == nil {
			continue
		}
		gone := func(p string) bool { return inside(s.Path, p) }
		out.spec.Mounts = slices.DeleteFunc(out.spec.Mounts, func(m shared.Mount) bool { return m.Source != "" && gone(m.Source) })
		if h.resolver.canCreate(s.Path) {
			open = append(open, s.Path)
		}
	}
	// What is mounted on the way to it is not needed, and perhaps not there.
	out.spec.Mounts = slices.DeleteFunc(out.spec.Mounts, func(m shared.Mount) bool {
		if !strings.HasPrefix(m.Origin, keptPrefix) {
			return false
		}
		_, err := os.Lstat(m.Source)
		return errors.Is(err, fs.ErrNotExist)
	})
	if len(open) > 0 {
		slices.Sort(open)
		out.notes = append(out.notes, fmt.Sprintf("a command can create %s, which should be kept from it: %v", strings.Join(open, ", "), cause))
	}
}

// canCreate reports whether a command could create p by its permissions, if need
// be after it has changed those of its own directories.
func (r *resolver) canCreate(p string) bool {
	for dir := filepath.Dir(p); ; dir = filepath.Dir(dir) {
		info, err := os.Lstat(dir)
		if err != nil && dir != "/" {
			continue
		} else if err != nil {
			return false
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		return ok && info.IsDir() && (st.Uid == r.uid() || r.uid() == 0 || info.Mode().Perm()&0o022 != 0)
	}
}
