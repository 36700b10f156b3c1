//go:build unix

package seatbelt

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// scratch is what exists for one command: its profile and private directories.
type scratch struct {
	places
	base    string // removed with all that is in it
	profile string
}

// newScratch makes the directories. They lie in the session's where there is
// one.
func newScratch(spec *shared.Spec) (_ *scratch, err error) {
	parent := spec.Session.Dir
	if parent == "" {
		parent = os.TempDir()
	}
	// The kernel goes by resolved paths.
	if parent, err = filepath.EvalSymlinks(parent); err != nil {
		return nil, unavailable("a place for temporary files", err)
	}
	if parent, err = canonical(parent); err != nil {
		return nil, unavailable("a place for temporary files", err)
	}
	base, err := os.MkdirTemp(parent, "seatbelt-")
	if err != nil {
		return nil, unavailable("a place for temporary files", err)
	}
	s := &scratch{base: base, profile: filepath.Join(base, "profile.sb")}
	s.tag = "sbxhost-" + rand.Text()
	s.scratch, s.temp = base, filepath.Join(base, "tmp")
	if spec.Session.Dir != "" {
		s.scratch = parent
	}
	if spec.Home != "" {
		s.home = filepath.Join(s.scratch, "home")
		if spec.Session.Dir != "" {
			s.home = filepath.Join(parent, "seatbelt-home")
		}
	}
	if err := s.populate(spec); err != nil {
		s.remove()
		return nil, unavailable("a place for temporary files", err)
	}
	return s, nil
}

func (s *scratch) populate(spec *shared.Spec) error {
	if err := os.Mkdir(s.temp, 0o700); err != nil {
		return err
	}
	own := []string{s.base, s.temp}
	if s.home != "" {
		if err := os.Mkdir(s.home, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		own = append(own, s.home)
	}
	for _, p := range own {
		if err := give(p, spec.User); err != nil {
			return err
		}
	}
	if s.home == "" {
		return nil
	}
	// Beneath the directory, whatever an earlier command of the session has put
	// there: never through a symlink of its.
	home, err := os.OpenRoot(s.home)
	if err != nil {
		return err
	}
	defer home.Close()
	for _, m := range spec.Table {
		rel, ok := strings.CutPrefix(m.Path, spec.Home+"/")
		if !ok || !m.Access.Shows() {
			continue
		}
		if dir := filepath.Dir(rel); dir != "." {
			if err := home.MkdirAll(dir, 0o700); err != nil {
				continue // something of the command's own is there
			}
		}
		if err := home.Symlink(m.Path, rel); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if spec.User == nil {
		return nil
	}
	return fs.WalkDir(home.FS(), ".", func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return home.Lchown(p, int(spec.User.UID), int(spec.User.GID))
	})
}

// give makes a new directory or file the user's, who is to use it.
func give(p string, user *shared.User) error {
	if user == nil {
		return nil
	}
	return os.Lchown(p, int(user.UID), int(user.GID))
}

// write puts the profile where sandbox-exec reads it.
func (s *scratch) write(text string, user *shared.User) error {
	f, err := os.OpenFile(s.profile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = give(s.profile, user)
	}
	if err != nil {
		return unavailable("the profile", err)
	}
	return nil
}

// remove takes away what is the command's alone.
func (s *scratch) remove() { os.RemoveAll(s.base) }

func unavailable(what string, err error) error {
	return &shared.Error{Kind: shared.ErrUnavailable, Message: "making " + what + ": " + err.Error()}
}
