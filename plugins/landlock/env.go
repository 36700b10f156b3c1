package landlock

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/engine/scratch"
	"github.com/sbxhost/sbxhost/internal/paths"
)

// environ is a command's environment for these wants: PATH without hidden directories, in which a
// shell would find programs that it cannot execute, and private directories for HOME and TMPDIR
// unless the definition shows its own. follow resolves symlinks.
func environ(env []string, wants []want, home, temp string, follow func(string) (string, error)) []string {
	shown := func(p string, a access) bool {
		var over want
		for _, w := range wants {
			if paths.Inside(w.path, p) && len(w.path) >= len(over.path) {
				over = w
			}
		}
		return over.access >= a
	}
	env = scratch.Environ(env, home, temp, func(name, value string) bool {
		p, err := follow(value)
		return err == nil && shown(p, map[string]access{"HOME": read, "TMPDIR": write}[name])
	})
	for i, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			dirs := slices.DeleteFunc(strings.Split(value, ":"), func(dir string) bool {
				p, err := follow(dir)
				return !errors.Is(err, fs.ErrNotExist) && (err != nil || !shown(p, read))
			})
			env[i] = "PATH=" + strings.Join(dirs, ":")
		}
	}
	return env
}
