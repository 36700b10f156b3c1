//go:build unix

package cmdengine

import (
	"cmp"

	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// LookPath finds a command as a shell in dir with that environment would, in
// the file system that this process sees: a name with a slash is relative to dir;
// any other is looked up in the absolute elements of env's PATH. Relative
// elements do not count, because the directory would then choose what runs.
// The errors are ErrNotFound and ErrNotExecutable.
//
// It is for launchers that leave the view of files as it is.
func LookPath(name, dir string, env []string) (string, error) {
	found, err := sandboxinit.Resolve([]string{name}, "", env, cmp.Or(dir, "."), 0)
	if err != nil {
		return "", execError(err, whereDirect)
	}
	return found.Path, nil
}
