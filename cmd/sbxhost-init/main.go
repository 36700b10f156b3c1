//go:debug containermaxprocs=0

// Sbxhost-init is the first process inside a sandbox. Engines run it; it does
// nothing when started by hand. See package sandboxinit.
package main

import (
	"os"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
)

func main() {
	sandboxinit.Hook()
	os.Stderr.WriteString("sbxhost-init: this program is started by sbxhost's engines inside a sandbox\n")
	os.Exit(2)
}
