//go:build unix

package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/sessiondir"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// Bases are the directories of sessions on this machine that commands of this user could open:
// base, if not empty, the caller's, and those of a user with that home, whose environment is
// unknown.
func Bases(base string, lookupEnv func(string) (string, bool), otherHome string) []string {
	bases := []string{sessiondir.SystemBase()}
	if base != "" {
		bases = append(bases, base)
	}
	other := func(name string) (string, bool) { return otherHome, name == "HOME" && otherHome != "" }
	for _, lookup := range []func(string) (string, bool){lookupEnv, other} {
		if dir, err := sessiondir.UserBase(lookup); err == nil {
			bases = append(bases, dir)
		}
	}
	slices.Sort(bases)
	return slices.Compact(bases)
}

// Prepare makes mount points beneath /tmp and the home, if these are the session's own directories:
// an engine makes none in a directory of the host. It refuses a size limit for them that nothing
// can enforce.
func Prepare(spec *shared.Spec) error {
	if err := checkSize(spec); err != nil {
		return err
	}
	table := spec.Table
	if spec.Home != "" && !slices.ContainsFunc(table, func(e shared.Entry) bool { return e.Path == spec.Home }) {
		table = append(slices.Clone(table), shared.Entry{Path: spec.Home, Access: shared.Private, Why: "home"})
	}
	for _, dir := range spec.Table {
		if dir.Why != view.OriginTemp && dir.Why != view.OriginHome {
			continue
		}
		if err := makePoints(table, dir, spec.User); err != nil {
			return err
		}
	}
	return nil
}

// makePoints makes those in dir, a directory of the session.
func makePoints(table []shared.Entry, dir shared.Entry, user *shared.User) error {
	root, err := os.OpenRoot(dir.Source) // a command may have put symlinks there
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	defer root.Close()
	uid, gid := -1, -1
	if user != nil {
		uid, gid = int(user.UID), int(user.GID)
	}
	for _, point := range table {
		name, below := strings.CutPrefix(point.Path, dir.Path+"/")
		if !below || point.Access == shared.Hidden && !slices.ContainsFunc(table, func(e shared.Entry) bool { return e.Access.Shows() && paths.Inside(point.Path, e.Path) }) {
			continue
		}
		if cover, _ := shared.Cover(table, filepath.Dir(point.Path)); cover == nil || cover.Path != dir.Path {
			continue // it is in another entry
		}
		isDir := true
		if point.Access.Shows() {
			info, err := os.Stat(point.Source)
			if err != nil {
				continue // the engine names the attribute
			}
			isDir = info.IsDir()
		}
		err := hostpath.MakePoint(root, name, isDir, 0o755, uid, gid)
		switch {
		case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENOTDIR):
			return view.Invalid(point.Why, fmt.Sprintf("a command of this session has put something else at %q in %q: %v", point.Path, dir.Path, err),
				"remove it, or begin a new session")
		case err != nil:
			return fmt.Errorf("session: making the mount point %q in %q: %w", point.Path, dir.Source, err)
		}
	}
	return nil
}
