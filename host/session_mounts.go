package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/paths"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// Origins of entries that show the session's own directories.
const (
	tempOrigin = view.OriginTemp
	homeOrigin = view.OriginHome
)

// sessionBases are the directories of this machine that hold sessions which
// commands of this user could open.
func sessionBases(base string, owner *owner, c caller) []string {
	homes := []string{c.home}
	if owner != nil {
		homes = append(homes, owner.home)
	}
	bases := []string{workspace.SystemSessionsDir()}
	if base != "" {
		bases = append(bases, base)
	}
	for i, home := range homes {
		lookup := func(name string) (string, bool) {
			if name == "HOME" {
				return home, home != ""
			}
			if i > 0 {
				return "", false // the other user's is not known
			}
			return c.lookupEnv(name)
		}
		if dir, err := workspace.SessionsDir(lookup); err == nil {
			bases = append(bases, dir)
		}
	}
	slices.Sort(bases)
	return slices.Compact(bases)
}

// makeMountPoints makes what mounts beneath /tmp and the home directory are
// mounted on, where these are the session's own directories: an engine makes
// none in a directory of the host.
func makeMountPoints(spec *shared.Spec) error {
	table := spec.Table
	if spec.Home != "" && !slices.ContainsFunc(table, func(e shared.Entry) bool { return e.Path == spec.Home }) {
		table = append(slices.Clone(table), shared.Entry{Path: spec.Home, Access: shared.Private, Why: "home"})
	}
	for _, own := range spec.Table {
		if own.Why != tempOrigin && own.Why != homeOrigin {
			continue
		}
		if err := makePoints(table, own, spec.User); err != nil {
			return err
		}
	}
	return nil
}

// makePoints makes those that lie in own, a directory of the session.
func makePoints(table []shared.Entry, own shared.Entry, user *shared.User) error {
	root, err := os.OpenRoot(own.Source) // a command may have put symlinks there
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	defer root.Close()
	uid, gid := -1, -1
	if user != nil {
		uid, gid = int(user.UID), int(user.GID)
	}
	for _, point := range table {
		name, below := strings.CutPrefix(point.Path, own.Path+"/")
		if !below || point.Access == shared.Hidden && !slices.ContainsFunc(table, func(e shared.Entry) bool { return e.Access.Shows() && paths.Inside(point.Path, e.Path) }) {
			continue
		}
		if cover, _ := shared.Cover(table, filepath.Dir(point.Path)); cover == nil || cover.Path != own.Path {
			continue // it lies in another entry first
		}
		isDir := true
		if point.Access.Shows() {
			info, err := os.Stat(point.Source)
			if err != nil {
				continue // the engine says of which attribute it is
			}
			isDir = info.IsDir()
		}
		err := hostpath.MakePoint(root, name, isDir, uid, gid)
		switch {
		case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENOTDIR):
			return attributeError(point.Why, fmt.Sprintf("%q lies in %q, where a command of this session has put something else: %v", point.Path, own.Path, err),
				"remove it, or begin a new session")
		case err != nil:
			return fmt.Errorf("session: making the mount point %q: %w", point.Path, err)
		}
	}
	return nil
}
