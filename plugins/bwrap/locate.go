package bwrap

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
)

// wellKnown is where distributions put bubblewrap. Never from PATH: the workspace
// could supply its own.
var wellKnown = [...]string{
	"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap",
	"/run/current-system/sw/bin/bwrap", "/nix/var/nix/profiles/default/bin/bwrap",
}

const (
	hintInstall = "install bubblewrap: apt-get install bubblewrap | dnf install bubblewrap | pacman -S bubblewrap | apk add bubblewrap | zypper install bubblewrap"
	fixSetuid   = "as root: chmod u-s on it, where the kernel lets ordinary users make user namespaces; otherwise use another engine"
)

// locate finds the launcher: at path where one is configured, else where
// distributions put it. What it returns has no symlink in it.
func locate(path string) (string, error) {
	if path != "" {
		return admitLauncher(path, "config.path")
	}
	for _, p := range wellKnown {
		if _, err := os.Lstat(p); err == nil {
			return admitLauncher(p, "")
		}
	}
	return "", &shared.Error{Kind: shared.ErrUnavailable, Message: "bubblewrap is not installed", Hint: hintInstall}
}

// admitLauncher refuses a launcher that somebody else could have put or
// changed there: it runs outside of every sandbox.
func admitLauncher(path, attribute string) (string, error) {
	refuse := func(message, hint string) (string, error) {
		return "", &shared.Error{Kind: shared.ErrUnavailable, Attribute: attribute, Message: message, Hint: hint}
	}
	if !filepath.IsAbs(path) {
		return "", &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: attribute, Message: fmt.Sprintf("%q is not absolute", path)}
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return refuse(fmt.Sprintf("no bubblewrap: %v", err), hintInstall)
	}
	info, err := os.Stat(real)
	if err != nil {
		return refuse(fmt.Sprintf("no bubblewrap: %v", err), hintInstall)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return refuse(fmt.Sprintf("%q is not an executable file", real), hintInstall)
	}
	if owner := owner(info); owner != 0 && owner != os.Geteuid() && owner != rootOwner() {
		return refuse(fmt.Sprintf("%q belongs to uid %d, who could replace it", real, owner), "it must belong to root or to you")
	}
	if info.Mode().Perm()&0o022 != 0 {
		return refuse(fmt.Sprintf("%q can be written by its group or by everybody", real), "chmod go-w "+real)
	}
	if dir, err := os.Stat(filepath.Dir(real)); err != nil || dir.Mode().Perm()&0o002 != 0 {
		return refuse(fmt.Sprintf("everybody can replace %q in its directory", real), "chmod o-w "+filepath.Dir(real))
	}
	if info.Mode()&fs.ModeSetuid != 0 {
		return refuse(fmt.Sprintf("%q is setuid, and so refuses to cap the size of temporary file systems", real), fixSetuid)
	}
	return real, nil
}

// outOfReach refuses a launcher that commands could write to: the next one
// would run theirs, outside.
func outOfReach(launcher string, spec *shared.Spec) error {
	for _, m := range spec.Mounts {
		if m.Kind == shared.MountReadWrite && within(launcher, m.Source) {
			return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: m.Origin,
				Message: fmt.Sprintf("makes the launcher %q writable from inside", launcher),
				Hint:    "bind it read-only, or bind less"}
		}
	}
	return nil
}

func owner(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// rootOwner is who owns the root directory, and so everything: the overflow
// user where root is not mapped, as in a user namespace.
func rootOwner() int {
	info, err := os.Stat("/")
	if err != nil {
		return 0
	}
	return owner(info)
}
