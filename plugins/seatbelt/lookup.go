package seatbelt

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

// systemPrograms are the directories from which minimal.sb lets programs run.
var systemPrograms = []string{
	"/bin", "/sbin", "/usr", "/System/Library", "/System/Cryptexes", "/Library/Apple", "/Library/Developer",
	"/Library/Frameworks", "/Library/Java", "/opt", "/nix/store", "/nix/var/nix/profiles",
}

// find returns the absolute path of a command as the sandbox will see it, so that a missing one is
// not sandbox-exec's exit status 71.
func (p *policy) find(cmd *shared.Command) (string, error) {
	name := cmd.Args[0]
	env := cmd.Env
	if !strings.Contains(name, "/") {
		var usable []string
		for dir := range strings.SplitSeq(sandboxinit.SearchPath(env), ":") {
			if filepath.IsAbs(dir) && p.executableAt(resolved(dir)) {
				usable = append(usable, dir)
			}
		}
		env = []string{"PATH=" + strings.Join(usable, ":")}
	}
	found, err := cmdengine.LookPath(name, cmd.Dir, env)
	if err != nil {
		return "", err
	}
	// The sandbox must show both: nobody inside can follow a hidden link.
	link := filepath.Join(resolved(filepath.Dir(found)), filepath.Base(found))
	for _, real := range []string{link, resolved(found)} {
		if !p.executableAt(real) {
			return "", &shared.Error{Kind: shared.ErrNotExecutable,
				Message: fmt.Sprintf("%q is %q, which the sandbox does not show", name, real),
				Hint:    "add its directory to bind_paths"}
		}
	}
	return found, nil
}

// executableAt reports whether a mount or the view beneath shows programs at a resolved path. It
// ignores patterns: the kernel denies what they hide.
func (p *policy) executableAt(at string) bool {
	if _, ok := p.areaAt(at); ok {
		return true
	}
	switch around := func(h area) bool { return paths.Inside(h.path, at) }; {
	case slices.ContainsFunc(p.hiddenAround, around):
		return false
	case p.spec.Filesystem == shared.FilesystemHost:
		return !paths.InsideAny([]string{"/dev", "/private/tmp", "/private/var/tmp", "/private/var/folders", "/private/var/run"}, at)
	}
	return paths.InsideAny(systemPrograms, at) || strings.HasPrefix(at, "/Applications/Xcode")
}

// resolved is the kernel's path for p, or p if nothing is there.
func resolved(p string) string {
	real, err := filepath.EvalSymlinks(p)
	if err == nil {
		real, err = canonical(real)
	}
	if err != nil {
		return p
	}
	return real
}
