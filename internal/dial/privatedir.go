//go:build unix

package dial

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

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
	bases = append(slices.Clip(bases), "/tmp")
	if rand.N(sweepOneIn) == 0 {
		go sweepPrivateDirs(bases)
	}
	var errs []error
	for _, base := range bases {
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

// staleAfter is far longer than a host or an engine needs such a directory.
const staleAfter = time.Hour

// sweepOneIn is the number of starts for one sweep: it reads all of /tmp, and there is hardly ever
// anything to remove.
const sweepOneIn = 50

// sweepPrivateDirs removes what hosts and engines left that were killed at that moment: only
// directories with sockets. Everything else with such a name stays.
func sweepPrivateDirs(bases []string) {
	for _, base := range bases {
		dirs, _ := filepath.Glob(filepath.Join(base, wire.TempDirPrefix+"*"))
		for _, dir := range dirs {
			info, err := os.Lstat(dir)
			if err != nil || !info.IsDir() || !OwnedPrivately(info) || time.Since(info.ModTime()) < staleAfter {
				continue
			}
			nested, _ := os.ReadDir(dir)
			for _, n := range nested {
				if n.IsDir() {
					removeSockets(filepath.Join(dir, n.Name()))
				}
			}
			syscall.Rmdir(dir)
		}
	}
}

func removeSockets(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type() == fs.ModeSocket {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	syscall.Rmdir(dir)
}

// OwnedPrivately reports whether a file is this user's, and nobody else can enter it.
func OwnedPrivately(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid() && info.Mode().Perm()&0o077 == 0
}
