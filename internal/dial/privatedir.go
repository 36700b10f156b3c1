//go:build unix

package dial

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/sbxhost/sbxhost/internal/wire"
)

// maxSocketPath is the size of sockaddr_un's path on every platform, with its NUL.
const maxSocketPath = 104

// socketName has the length of the names below the base directory: ours, and go-plugin's
// "plugin-dir" and "plugin", each with a random uint32.
const socketName = "/" + wire.TempDirPrefix + "4294967295/plugin-dir4294967295/plugin4294967295"

// privateDir makes a directory that only this user can enter, for sockets without credentials, in
// the first usable one of some directories, or /tmp.
func privateDir(bases []string) (dir string, err error) {
	var errs []error
	for _, base := range append(slices.Clip(bases), "/tmp") {
		if len(base)+len(socketName) < maxSocketPath {
			dir, err := os.MkdirTemp(base, wire.TempDirPrefix)
			if err == nil {
				return dir, nil
			}
			errs = append(errs, err)
		}
	}
	return "", fmt.Errorf("private directory for the engine's socket: %w; set TMPDIR to a directory that you can write to", errors.Join(errs...))
}
