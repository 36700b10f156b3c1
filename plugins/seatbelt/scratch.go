package seatbelt

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
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
	parent, err := filepath.EvalSymlinks(cmp.Or(spec.Session.Dir, os.TempDir())) // the kernel uses resolved paths
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
	if spec.Session.Dir != "" {
		s.scratch = parent
	}
	if s.temp, err = s.dir.Make("tmp"); err != nil || spec.Home == "" {
		return err
	}
	if spec.Session.Dir == "" {
		s.home, err = s.dir.Make("home")
	} else {
		s.home = filepath.Join(s.scratch, "seatbelt-home")
		if err = os.Mkdir(s.home, 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			err = scratch.Give(s.home, spec.User)
		}
	}
	if err != nil {
		return err
	}
	return scratch.Link(s.home, spec)
}

// write writes the profile for sandbox-exec.
func (s *commandFiles) write(text string, user *shared.User) error {
	f, err := os.OpenFile(s.profile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = scratch.Give(s.profile, user)
	}
	if err != nil {
		return unavailable("the profile", err)
	}
	return nil
}

func unavailable(what string, err error) error {
	return &shared.Error{Kind: shared.ErrUnavailable, Message: "making " + what + ": " + err.Error()}
}
