//go:build unix

package session

import (
	"os"
	"path/filepath"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/sessiondir"
)

// keepersDir is the directory, of a base of sessions, of those programs that hold the processes of
// a named session. No session's directory has such a name.
const keepersDir = ".kept"

// KeeperDir gives the directory for who holds the processes of a named session of this user, and with
// create makes it. It is this user's alone, and hidden from commands as directories of sessions are.
func KeeperDir(lookupEnv func(string) (string, bool), name string, create bool) (string, error) {
	if err := sessiondir.CheckName(name); err != nil {
		return "", err
	}
	base, err := sessiondir.UserBase(lookupEnv)
	if !create || err != nil {
		return filepath.Join(base, keepersDir, name), err
	}
	if err := sessiondir.MakeBase(base); err != nil {
		return "", err
	}
	dir := filepath.Join(base, keepersDir)
	for _, d := range []string{dir, filepath.Join(dir, name)} {
		if err := os.Mkdir(d, 0o700); err != nil && !os.IsExist(err) {
			return "", err
		}
		if err := hostpath.CheckPrivate(d); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, name), nil
}
