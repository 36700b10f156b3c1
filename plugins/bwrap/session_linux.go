package bwrap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/engine/mountplan"
	"github.com/sbxhost/sbxhost/internal/engine/nsengine"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// home says what a sandbox's home directory is.
type home struct {
	keeps string // the directory of the session that is bound there; "" means memory of each command
	short string // why it does not last in a session
}

// keepHome adds a directory of the session for the home to the table. It keeps a definition's own
// home.
func (s *opened) keepHome() {
	spec := s.spec
	at := func(e shared.Entry) bool { return e.Path == spec.Home }
	if spec.Session.Dir == "" || spec.Session.ID == "" || spec.Home == "" || slices.ContainsFunc(spec.Table, at) {
		return
	}
	if spec.Limits.TempSize > 0 && !spec.Limits.BestEffort {
		s.home.short = "limits.temp_size is required, and a disk cannot enforce it"
		return
	}
	dir, err := nsengine.SessionDir(spec, "home")
	if err != nil {
		s.home.short = err.Error()
		return
	}
	own := *spec
	own.Table = append(slices.Clip(own.Table), shared.Entry{Path: spec.Home, Source: dir, Access: shared.ReadWrite, Why: "home"})
	s.spec, s.home.keeps = &own, dir
}

// makePoints makes the mount points of the table's entries in the session's home. Commands may have
// removed them since the last time.
func (s *opened) makePoints() error {
	if s.home.keeps == "" {
		return nil
	}
	uid, gid := -1, -1
	if u := s.spec.User; u != nil && os.Geteuid() == 0 {
		uid, gid = int(u.UID), int(u.GID)
	}
	root, err := os.OpenRoot(s.home.keeps) // commands may have put symlinks there
	if err != nil {
		return &shared.Error{Kind: shared.ErrUnavailable, Attribute: "home", Message: err.Error()}
	}
	defer root.Close()
	cover := shared.Covers(s.spec.Table)
	for _, e := range s.spec.Table {
		name, below := strings.CutPrefix(e.Path, s.spec.Home+"/")
		if !below {
			continue
		}
		shows := func(in shared.Entry) bool { return in.Access.Shows() && paths.Inside(e.Path, in.Path) }
		if under, _ := cover(path.Dir(e.Path)); under.Path != s.spec.Home || e.Access == shared.Hidden && !slices.ContainsFunc(s.spec.Table, shows) {
			continue
		}
		isDir := true
		if e.Access.Shows() {
			info, err := mountplan.Lstat(e.Source)
			if err != nil {
				continue // the plan reports it
			}
			isDir = info.IsDir()
		}
		if err := hostpath.MakePoint(root, name, isDir, 0o755, uid, gid); err != nil {
			kind := shared.ErrUnavailable
			if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrPermission) {
				kind = shared.ErrInvalidSpec
			}
			return &shared.Error{Kind: kind, Attribute: e.Why, Message: fmt.Sprintf("making a mount point for %q in the session's home: %v", e.Path, err),
				Hint: "remove what a command put there, or begin a new session"}
		}
	}
	return nil
}

// events report which parts of a session and its limits are not enforced as asked.
func (s *opened) events() []shared.Event {
	out := mountplan.Events(s.held, s.spec)
	if s.home.short != "" {
		out = append(out, shared.Event{Kind: shared.EventDegraded, Message: "the home directory lasts for one command, not for the session: " + s.home.short,
			Details: map[string]string{"mechanism": "session", "attribute": "home", "path": s.spec.Home}})
	}
	if s.home.keeps != "" && s.spec.Limits.TempSize > 0 {
		out = append(out, shared.Event{Kind: shared.EventLimit, Message: "limits.temp_size is not held for the session's home directory, which is on a disk",
			Details: map[string]string{"limit": "temp_size", "mechanism": "", "hold": "not held"}})
	}
	return out
}
