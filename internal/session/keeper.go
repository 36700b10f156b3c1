//go:build unix

package session

import (
	"path/filepath"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/sessiondir"
)

// keepersDir is the directory, in a base of sessions, for programs that keep the processes of a
// named session. No session's directory has such a name.
const keepersDir = ".kept"

// KeeperDir returns the directory for the keeper of a named session of this user. Unless writable, the
// directories where commands can write, is nil, it makes it. Only this user can use it, and commands
// cannot see it, as directories of sessions.
func KeeperDir(lookupEnv func(string) (string, bool), name string, writable func() []string) (string, error) {
	if err := sessiondir.CheckName(name); err != nil {
		return "", err
	}
	base, err := sessiondir.UserBase(lookupEnv)
	if err == nil {
		base, err = sessiondir.ResolveBase(base, writable)
	}
	dir := filepath.Join(base, keepersDir, name)
	if writable == nil || err != nil {
		return dir, err
	}
	if err := sessiondir.MakeBase(base); err != nil {
		return "", err
	}
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := hostpath.MakePrivate(d, 0o700); err != nil {
			return "", err
		}
	}
	return dir, nil
}
