//go:debug containermaxprocs=0

// Command nomad-driver-sbxhost is a task driver for Nomad: put it, and sbxhost-init, into
// the agent's plugin_dir.
package main

import (
	"os"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/integrations/nomad/internal/driver"
)

func main() {
	host.ServeBuiltin() // the engines are part of the executor
	os.Exit(driver.Main(os.Args[1:]))
}
