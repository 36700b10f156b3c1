package landlock

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/engine/scratch"
	"github.com/sbxhost/sbxhost/shared"
)

// private are a command's own directories, in place of the home and of /tmp.
type private struct {
	home, temp string       // home is "" if the Spec has none
	alone      *scratch.Dir // removed with the command; nil if the session owns them
}

// make makes them in the session's directory, or in that of temporary files.
func (p *private) make(spec *shared.Spec) error {
	within := func(name string) (string, error) { return sessionDir(spec, name) }
	if spec.Session.Dir == "" {
		dir, err := filepath.EvalSymlinks(scratch.TempDir())
		if err != nil {
			return err
		}
		if p.alone, err = scratch.New(dir, "landlock", spec.User); err != nil {
			return err
		}
		within = p.alone.Make
	}
	var err error
	if p.temp, err = within("temp"); err != nil || spec.Home == "" {
		return err
	}
	if p.home, err = within("home"); err != nil {
		return err
	}
	return scratch.Link(p.home, spec)
}

func (p *private) dirs() []string {
	if p.home == "" {
		return []string{p.temp}
	}
	return []string{p.temp, p.home}
}

// sessionDir makes a directory of a session, one for each user, and checks who could have written
// to it; see [holder.SessionDir].
func sessionDir(spec *shared.Spec, name string) (string, error) {
	uid, gid := os.Geteuid(), os.Getegid()
	if u := spec.User; u != nil && uid == 0 {
		uid, gid = int(u.UID), int(u.GID)
	}
	name += "-" + strconv.Itoa(uid)
	dir, err := holder.SessionDir(spec.Session.Dir, uid, gid, name)
	if err != nil {
		return "", err
	}
	unix.Close(dir)
	return filepath.Join(spec.Session.Dir, name), nil
}
