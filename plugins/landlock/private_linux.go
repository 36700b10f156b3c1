package landlock

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/nsengine"
	"github.com/sbxhost/sbxhost/shared/wire"
)

// private are a command's own directories, in place of the home and of /tmp.
type private struct {
	home, temp string // home is "" where a Spec has none
	base       string // removed with the command; "" where they are the session's
}

// make makes them in the session's directory, or where temporary files are.
func (p *private) make(spec *shared.Spec) (err error) {
	if spec.Session.Dir != "" {
		if p.temp, err = nsengine.SessionDir(spec, "temp"); err == nil && spec.Home != "" {
			p.home, err = nsengine.SessionDir(spec, "home")
		}
	} else {
		err = p.makeAlone(spec)
	}
	if err != nil || p.home == "" {
		return err
	}
	return p.link(spec)
}

func (p *private) makeAlone(spec *shared.Spec) error {
	dir, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil {
		return err
	}
	if p.base, err = os.MkdirTemp(dir, wire.TempDirPrefix+"landlock-"); err != nil {
		return err
	}
	p.temp = filepath.Join(p.base, "temp")
	if spec.Home != "" {
		p.home = filepath.Join(p.base, "home")
	}
	for _, dir := range append(p.dirs(), p.base) {
		if dir != p.base {
			err = os.Mkdir(dir, 0o700)
		}
		if u := spec.User; err == nil && u != nil {
			err = os.Chown(dir, int(u.UID), int(u.GID))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *private) dirs() []string {
	if p.home == "" {
		return []string{p.temp}
	}
	return []string{p.temp, p.home}
}

func (p *private) remove() {
	if p.base != "" {
		nsengine.RemoveTree(p.base)
	}
}

// link leads from the private home to what is shown in the one that it takes the place of.
func (p *private) link(spec *shared.Spec) error {
	home, err := os.OpenRoot(p.home) // commands of the session may have put symlinks there
	if err != nil {
		return err
	}
	defer home.Close()
	uid, gid := -1, -1
	if u := spec.User; u != nil {
		uid, gid = int(u.UID), int(u.GID)
	}
	for _, e := range spec.Table {
		rel, ok := strings.CutPrefix(e.Path, spec.Home+"/")
		if !ok || !e.Access.Shows() {
			continue
		}
		// What is in the way is a command's own.
		if dir := filepath.Dir(rel); dir != "." && hostpath.MakePoint(home, dir, true, uid, gid) != nil {
			continue
		}
		if err := home.Symlink(e.Path, rel); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}
