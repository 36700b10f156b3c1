package wire

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// maxSocketPath is the size of sockaddr_un's path on every platform, with its NUL.
const maxSocketPath = 104

// PrivateDir makes a directory that only this user can enter, for a socket with the path below it: in
// the first usable one of some absolute directories, or /tmp.
func PrivateDir(bases []string, below string) (string, error) {
	var errs []error
	for _, base := range append(slices.Clip(bases), "/tmp") {
		if !filepath.IsAbs(base) || len(base)+len("/"+TempDirPrefix+"4294967295"+below) >= maxSocketPath {
			continue
		}
		dir, err := os.MkdirTemp(base, TempDirPrefix)
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("private directory for a socket: %w; set TMPDIR to a directory that you can write to", errors.Join(errs...))
}
