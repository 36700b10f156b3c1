package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/internal/sessiondir"
)

// examine runs all checks of this platform.
func examine(a *cli.App) []finding {
	findings := []finding{{Name: "platform", State: stateOK, Found: fmt.Sprintf("%s/%s, as user %d", runtime.GOOS, runtime.GOARCH, os.Geteuid())}}
	findings = append(findings, examinePlatform()...)
	return append(findings, cacheDir(a))
}

// cacheDir writes to the directory of the sessions' scratch space.
func cacheDir(a *cli.App) finding {
	f := finding{Name: "cache directory", State: stateOK}
	base, err := sessiondir.UserBase(a.LookupEnv)
	dir := ""
	if err == nil {
		dir, err = os.MkdirTemp(nearest(base), ".sbxhost-doctor-")
	}
	if err != nil {
		f.State, f.Found, f.Consequence = stateMissing, err.Error(), "sessions have no place for their scratch space"
		f.Fix = "set HOME, or XDG_CACHE_HOME, to a directory that can be written"
		return f
	}
	f.Found = base
	defer os.Remove(dir)
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err == nil {
		free := uint64(st.Bavail) * uint64(st.Bsize)
		f.Found += fmt.Sprintf(", %d MiB free", free>>20)
		if free < 1<<30 {
			f.State, f.Consequence, f.Fix = stateLimited, "commands that write much will fail", "free some space"
		}
	}
	return f
}

// nearest returns the directory, or the nearest existing one above it.
func nearest(dir string) string {
	for dir != "/" && dir != "." {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return dir
}
