//go:build !linux

package doctor

import (
	"context"
	"runtime"
	"time"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// examinePlatform tries the launcher of macOS. No engine isolates on other systems.
func examinePlatform(ctx context.Context) []finding {
	if runtime.GOOS != "darwin" {
		return []finding{{Name: "engines", State: stateMissing, Found: "no engine isolates on " + runtime.GOOS, Consequence: "nothing can be run", Fix: "use Linux or macOS"}}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	f := finding{Name: "sandbox-exec", State: stateOK, Found: "works"}
	launcher, err := hostpath.Installed("/usr/bin/sandbox-exec")
	if err == nil {
		err = launcher.Command(ctx, "-p", "(version 1)(allow default)", "/usr/bin/true").Run()
	}
	if err != nil {
		f.State, f.Found = stateMissing, err.Error()
		f.Consequence = "the engine seatbelt cannot be used"
		f.Fix = "run it outside of another sandbox: they do not nest"
	}
	return []finding{f}
}
