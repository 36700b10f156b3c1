//go:build !unix

package noop

import (
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

// New makes an engine that says why it cannot work here.
func New() shared.Engine {
	return cmdengine.Elsewhere(info, "an engine's process gets a command's files over a unix socket")
}
