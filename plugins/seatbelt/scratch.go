package seatbelt

import (
	"cmp"
	"errors"
	"path/filepath"

	"github.com/sbxhost/sbxhost/internal/engine/scratch"
	"github.com/sbxhost/sbxhost/shared"
)

// commandFiles has the files of one command: its profile and private directories.
type commandFiles struct {
	places
	dir     *scratch.Dir // removed with all that is in it
	profile string
}

// newOwn makes the directories, in the session's if there is one.
func newOwn(spec *shared.Spec) (*commandFiles, error) {
	s := &commandFiles{}
	if err := s.make(spec); err != nil {
		s.dir.Remove()
		return nil, unavailable("a place for temporary files", err)
	}
	return s, nil
}

func (s *commandFiles) make(spec *shared.Spec) error {
	parent, err := filepath.EvalSymlinks(cmp.Or(spec.Session.Dir, scratch.TempDir())) // the kernel uses resolved paths
	if err == nil {
		parent, err = canonical(parent)
	}
	if err == nil {
		s.dir, err = scratch.New(parent, "seatbelt", spec.User)
	}
	if err != nil {
		return err
	}
	s.profile, s.scratch = filepath.Join(s.dir.Path, "profile.sb"), s.dir.Path
	home := filepath.Join(s.dir.Path, "home")
	if spec.Session.Dir != "" {
		s.scratch, home = parent, filepath.Join(parent, "seatbelt-home")
	}
	if s.temp, err = s.dir.Make("tmp"); err != nil || spec.Home == "" {
		return err
	}
	s.home = home
	return scratch.Link(home, spec)
}

// write writes the profile for sandbox-exec.
func (s *commandFiles) write(text string) error {
	f, err := s.dir.Create(filepath.Base(s.profile))
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return unavailable("the profile", err)
	}
	return nil
}

func unavailable(what string, err error) error {
	return &shared.Error{Kind: shared.ErrUnavailable, Message: "making " + what + ": " + err.Error()}
}
