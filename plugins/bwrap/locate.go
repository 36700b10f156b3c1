package bwrap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/sbxhost/sbxhost/internal/engine/mountplan"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// wellKnown is where distributions install bubblewrap. Never from PATH: the workspace could supply
// its own.
var wellKnown = [...]string{
	"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap",
	"/run/current-system/sw/bin/bwrap", "/nix/var/nix/profiles/default/bin/bwrap",
}

const (
	hintInstall = "install bubblewrap: apt-get install bubblewrap | dnf install bubblewrap | pacman -S bubblewrap | apk add bubblewrap | zypper install bubblewrap"
	fixSetuid   = "as root: chmod u-s on it, where the kernel lets ordinary users make user namespaces; otherwise use another engine"
)

// locate finds the launcher: at path, or if that is empty where distributions install it. The
// result has no symlinks.
func locate(path string) (string, error) {
	if path != "" {
		return admitLauncher(path, "config.path")
	}
	for _, p := range wellKnown {
		if _, err := os.Lstat(p); !errors.Is(err, fs.ErrNotExist) {
			return admitLauncher(p, "")
		}
	}
	return "", &shared.Error{Kind: shared.ErrUnusable, Message: "bubblewrap is not installed", Hint: hintInstall}
}

// admitLauncher refuses a launcher that another user could have written: it runs outside of every
// sandbox.
func admitLauncher(path, attribute string) (string, error) {
	e := &shared.Error{Kind: shared.ErrUnavailable, Attribute: attribute}
	if attribute == "" { // a configured one may be where commands write
		e.Kind = shared.ErrUnusable
	}
	program, err := hostpath.Installed(path)
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(program.Path())
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Message, e.Hint = fmt.Sprintf("no bubblewrap: %v", err), hintInstall
	case errors.As(err, new(*fs.PathError)):
		e.Kind, e.Message = shared.ErrUnavailable, err.Error()
	case err != nil:
		e.Message, e.Hint = err.Error(), "it runs outside of every sandbox, so only root and you may be able to change it"
	case info.Mode()&fs.ModeSetuid != 0:
		e.Message, e.Hint = fmt.Sprintf("%q is setuid, and therefore refuses to limit the size of temporary file systems", program.Path()), fixSetuid
	default:
		return program.Path(), nil
	}
	return "", e
}

// outOfReach refuses a launcher that commands could write to: the next command would run theirs,
// outside. A configured one must not even be in a tree that is read-only in this sandbox: commands
// of another sandbox may have written there.
func outOfReach(launcher string, named bool, spec *shared.Spec) error {
	for _, m := range spec.Table {
		if !m.Access.Shows() || !paths.Inside(m.Source, launcher) {
			continue
		}
		if m.Access == shared.ReadWrite {
			return mountplan.Invalid(m.Why, "bind it read-only, or bind less", "makes the launcher %q writable from inside", launcher)
		}
		if named {
			return mountplan.Invalid("config.path", "name one elsewhere",
				"the launcher %q is in a tree that commands see (%s), where a command may have put it", launcher, m.Why)
		}
	}
	return nil
}
