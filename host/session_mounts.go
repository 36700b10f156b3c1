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
	"github.com/sbxhost/sbxhost/workspace"
)

// Origins of mounts that show the session's own directories.
const (
	tempOrigin = "workspace.temp"
	homeOrigin = "home of the session"
)

// mountTemp shows the session's scratch directory as /tmp and, for those who
// were told its path outside, at that.
func (r *resolver) mountTemp(m *mounts, mount shared.Entry, raw string) error {
	mount.Why, mount.Access = tempOrigin, shared.ReadWrite
	mount.Path = "/tmp"
	if err := m.add(mount); err != nil {
		return err
	}
	mount.Path = mount.Source
	if err := m.add(mount); err != nil {
		return err
	}
	return m.addSpelling(mount, raw)
}

// ephemeral makes a mount one that can be written to for as long as the session
// lasts, the host's files staying as they are. The kernel cannot do so for a
// file, nor beneath the top level of a tree that is not the command's user's,
// where the modes of the host's files count.
func (r *resolver) ephemeral(out *resolved, mount *shared.Entry) {
	info, err := os.Stat(mount.Source)
	if err != nil || !info.IsDir() || info.Sys().(*syscall.Stat_t).Uid != r.uid() {
		return
	}
	if r.session.Dir == "" {
		out.wantsSession = true
		return
	}
	mount.Access, mount.Degradable = shared.Overlay, true
}

// inWritableRoot reports whether p lies in a root that commands write to: a
// readable root there says what of it they cannot.
func (r *resolver) inWritableRoot(p string) bool {
	return slices.ContainsFunc(r.ws.Roots(), func(root workspace.RootDir) bool {
		return root.Writable && root.Field != "temp_alias" && inside(root.Path, p)
	})
}

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

// hideSessions covers what holds sessions, wherever a mount shows it: who
// reaches the sockets and files of one can have commands run in it, with a
// network for example, or decide what others find there. It is made before it is
// covered, since it can come to be while a command runs.
func (r *resolver) hideSessions(m *mounts) error {
	for _, base := range r.sessionBases {
		covered := func(p string) bool { return inside(p, base) }
		for _, have := range m.spec.Table {
			if have.Access != shared.Private && covered(have.Source) && !strings.HasPrefix(base, workspace.SystemSessionsDir()) {
				_ = workspace.MakeBase(base) // where it cannot be made, nobody else makes it
				break
			}
		}
		if resolved, err := filepath.EvalSymlinks(base); err == nil {
			base = resolved
		} else {
			continue
		}
		for _, have := range slices.Clone(m.spec.Table) {
			switch {
			case have.Access == shared.Private:
			case have.Why != tempOrigin && have.Why != homeOrigin && inside(base, have.Source):
				return attributeError(have.Why, fmt.Sprintf("%s lies in %s, which holds the sessions of sbxhost", have.Source, base), "choose another directory")
			case covered(have.Source):
				place := have.Path + strings.TrimPrefix(base, strings.TrimSuffix(have.Source, "/"))
				if _, at := m.cover(place); at == base {
					m.show(shared.Entry{Path: place, Access: shared.Private, Why: "protected: sessions"})
				}
			}
		}
		if m.spec.Filesystem == shared.FilesystemHost && r.inHostView(m, base) {
			m.show(shared.Entry{Path: r.coverFor(base), Access: shared.Private, Why: "protected: sessions"})
		}
	}
	return nil
}

// keepSessions keeps what holds sessions in its place, wherever a writable mount
// shows it. A command that renamed a directory above it would lay the sessions
// open to the next command, and could make others' in their place.
func (r *resolver) keepSessions(m *mounts) {
	for _, base := range r.sessionBases {
		base, err := filepath.EvalSymlinks(base)
		if err != nil {
			continue
		}
		for _, have := range slices.Clone(m.spec.Table) {
			if have.Access == shared.ReadWrite && have.Source != base && inside(have.Source, base) {
				m.keep(have, base, "sessions")
			}
		}
	}
}

// inHostView reports whether the host's tree alone, with no mount over it,
// shows p.
func (r *resolver) inHostView(m *mounts, p string) bool {
	private := []string{"/tmp", "/var/tmp", "/run", "/proc", "/dev"}
	if m.spec.Home != "" {
		private = append(private, m.spec.Home)
	}
	if slices.ContainsFunc(private, func(dir string) bool { return inside(dir, p) }) {
		return false
	}
	cover, _ := m.cover(p)
	return cover == nil
}

// makeMountPoints makes what mounts beneath /tmp and the home directory are
// mounted on, where these are the session's own directories: an engine makes
// none in a directory of the host.
func makeMountPoints(spec *shared.Spec) error {
	all := mounts{spec: &shared.Spec{Table: slices.Clone(spec.Table), User: spec.User}}
	if spec.Home != "" {
		all.show(shared.Entry{Path: spec.Home, Access: shared.Private, Why: "home"})
	}
	for _, own := range spec.Table {
		if own.Why != tempOrigin && own.Why != homeOrigin {
			continue
		}
		if err := all.makePoints(own); err != nil {
			return err
		}
	}
	return nil
}

// makePoints makes those that lie in own, a directory of the session.
func (m *mounts) makePoints(own shared.Entry) error {
	root, err := os.OpenRoot(own.Source) // a command may have put symlinks there
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	defer root.Close()
	for _, point := range m.spec.Table {
		name, below := strings.CutPrefix(point.Path, own.Path+"/")
		if !below {
			continue
		}
		if cover, _ := m.cover(filepath.Dir(point.Path)); cover == nil || cover.Path != own.Path {
			continue // it lies in another mount first
		}
		isDir := true
		if point.Access != shared.Private {
			info, err := os.Stat(point.Source)
			if err != nil {
				continue // the engine says of which attribute it is
			}
			isDir = info.IsDir()
		}
		err := makeMountPoint(root, name, isDir, m.spec.User)
		switch {
		case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
			return attributeError(point.Why, fmt.Sprintf("%s lies in %s, where a command of this session has put something else: %v", point.Path, own.Path, err),
				"remove it, or begin a new session")
		case err != nil:
			return fmt.Errorf("session: making the mount point %s: %w", point.Path, err)
		}
	}
	return nil
}

func makeMountPoint(root *os.Root, name string, isDir bool, user *shared.User) error {
	at := ""
	for part := range strings.SplitSeq(name, "/") {
		at = filepath.Join(at, part)
		last := at == name
		info, err := root.Lstat(at)
		switch {
		case err == nil && info.Mode()&fs.ModeSymlink != 0:
			return &fs.PathError{Op: "mkdir", Path: at, Err: syscall.ELOOP}
		case err == nil:
			continue // the engine checks that it is of the right kind
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if last && !isDir {
			f, err := root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			f.Close()
		} else if err := root.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		} else if user != nil {
			if err := giveTo(root, at, user); err != nil {
				return err
			}
		}
	}
	return nil
}

// giveTo gives a directory that root has made to a user, who works beside it.
// By descriptor, and no file: its name is in a directory of the user's, who could
// put a second name of one of root's files in its place.
func giveTo(root *os.Root, name string, user *shared.User) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.IsDir() || info.Sys().(*syscall.Stat_t).Uid != 0 {
		return err
	}
	return f.Chown(int(user.UID), int(user.GID))
}
