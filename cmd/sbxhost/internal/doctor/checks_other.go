//go:build unix && !linux

package doctor

import (
	"context"
	"os/exec"
	"runtime"
	"time"
)

// examinePlatform tries the launcher of macOS. No engine isolates on other systems.
func examinePlatform(ctx context.Context) []finding {
	if runtime.GOOS != "darwin" {
		return []finding{{Name: "engines", State: stateMissing, Found: "no engine isolates on " + runtime.GOOS, Consequence: "nothing can be run", Fix: "use Linux or macOS"}}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	f := finding{Name: "sandbox-exec", State: stateOK, Found: "works"}
	if err := exec.CommandContext(ctx, "/usr/bin/sandbox-exec", "-p", "(version 1)(allow default)", "/usr/bin/true").Run(); err != nil {
		f.State, f.Found = stateMissing, err.Error()
		f.Consequence = "the engine seatbelt cannot be used"
		f.Fix = "run it outside of another sandbox: they do not nest"
	}
	return []finding{f}
}
