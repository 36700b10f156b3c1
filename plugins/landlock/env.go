package landlock

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

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
	have := func(p string, a access) bool {
		p, err := follow(p)
		return err == nil && shown(p, a)
	}
	out, hasTemp := make([]string, 0, len(env)+1), false
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case name == "PATH":
			dirs := slices.DeleteFunc(strings.Split(value, ":"), func(dir string) bool {
				p, err := follow(dir)
				return !errors.Is(err, fs.ErrNotExist) && (err != nil || !shown(p, read))
			})
			entry = "PATH=" + strings.Join(dirs, ":")
		case name == "HOME" && home != "" && !have(value, read):
			entry = "HOME=" + home
		case name == "TMPDIR":
			hasTemp = true
			if !have(value, write) {
				entry = "TMPDIR=" + temp
			}
		}
		out = append(out, entry)
	}
	if !hasTemp {
		out = append(out, "TMPDIR="+temp)
	}
	return out
}
