package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// checkMounts refuses what the daemon would follow or make where a command, or
// nobody, wants it: a source that is not there any more or has become a symlink, a
// destination beneath another bind that does not exist, for which the daemon
// would make a directory in the host's tree, as root, or which leads through a
// symlink. It also refuses whatever shows the daemon's own socket.
func checkMounts(mounts []shared.Entry, socket string) error {
	if resolved, err := filepath.EvalSymlinks(socket); err == nil {
		socket = resolved
	}
	for _, m := range mounts {
		if m.Access == shared.Private {
			continue
		}
		if within(socket, m.Source) {
			return &shared.Error{Kind: shared.ErrDenied, Attribute: m.Why,
				Message: fmt.Sprintf("%q shows the Docker daemon's socket %q, with which a command could do anything to this machine", m.Source, socket),
				Hint:    "bind less"}
		}
		info, err := os.Lstat(m.Source)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: m.Why, Message: fmt.Sprintf("%q does not exist", m.Source),
				Hint: "create it, or mark the bind optional"}
		case err != nil:
			return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: m.Why, Message: err.Error()}
		case info.Mode()&fs.ModeSymlink != 0:
			return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: m.Why, Message: fmt.Sprintf("%q has become a symlink", m.Source)}
		}
		if err := checkDestination(mounts, m, info.IsDir()); err != nil {
			return err
		}
	}
	for _, m := range mounts {
		if m.Access == shared.Private {
			if err := checkDestination(mounts, m, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkDestination looks at the place of m in the bind that m lies beneath, if
// there is one.
func checkDestination(mounts []shared.Entry, m shared.Entry, dir bool) error {
	under := above(mounts, m.Path)
	if under == nil || under.Access == shared.Private {
		return nil
	}
	bad := func(format string, args ...any) error {
		return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: m.Why,
			Message: fmt.Sprintf("destination %q ", m.Path) + fmt.Sprintf(format, args...)}
	}
	at := under.Source
	rest := strings.TrimPrefix(strings.TrimPrefix(m.Path, under.Path), "/")
	var info fs.FileInfo
	for name := range strings.SplitSeq(rest, "/") {
		at = filepath.Join(at, name)
		var err error
		if info, err = os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
			e := bad("does not exist in what is bound there (%q on the host)", at)
			e.(*shared.Error).Hint = "create it on the host, or choose a destination outside of the other binds"
			return e
		} else if err != nil {
			return bad("cannot be used: %v", err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return bad("leads through the symlink %q, which a command could have put there", at)
		}
	}
	if info.IsDir() != dir {
		return bad("and its source are not both directories or both files")
	}
	return nil
}
