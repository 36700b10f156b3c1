package wire

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// maxSocketPath is the size of sockaddr_un's path on every platform, with its NUL.
const maxSocketPath = 104

// PrivateDir makes a directory that only this user can enter or replace, for a socket with the path
// below it: in the first usable one of some absolute directories, or /tmp. Root's may be in none of
// an ordinary user, whose variables it may have, as after sudo -E. The path has no symlinks.
func PrivateDir(bases []string, below string) (string, error) {
	var errs []error
	for _, base := range append(slices.Clip(bases), "/tmp") {
		if !filepath.IsAbs(base) {
			continue
		}
		dir, err := hostpath.Trusted(base)
		if base == "/tmp" && dir != "" {
			err = nil // in a container, everybody may often replace files there, and nobody else is there
		}
		if err == nil && len(dir)+len("/"+TempDirPrefix+"4294967295"+below) >= maxSocketPath {
			continue
		}
		if err == nil {
			dir, err = os.MkdirTemp(dir, TempDirPrefix)
		}
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("private directory for a socket: %w; set TMPDIR to a directory that you can write to, and others cannot replace", errors.Join(errs...))
}
