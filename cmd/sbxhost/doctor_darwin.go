package main

import (
	"context"
	"os/exec"
	"time"
)

// examinePlatform tries the launcher of macOS.
func examinePlatform(ctx context.Context) []finding {
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
