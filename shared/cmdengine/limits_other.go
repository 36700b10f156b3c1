//go:build unix && !linux

package cmdengine

import (
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// approximations are none: the init runs on Linux alone.
func approximations(shared.Limits, []holding) []sandboxinit.Rlimit { return nil }
