//go:build !linux

package docker

import (
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

// New makes an engine that says why it cannot work here: on other systems, daemons run in virtual
// machines, into which no descriptor can be passed.
func New() shared.Engine {
	return cmdengine.Unsupported(info, "the docker engine needs a daemon on the same Linux system")
}
