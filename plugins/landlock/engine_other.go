//go:build !linux

package landlock

import (
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

// New makes an engine that says why it cannot work here.
func New() shared.Engine { return cmdengine.Unsupported(info, "Landlock needs Linux") }
