//go:debug containermaxprocs=0

// Command sbxhost-engine-bwrap serves the bwrap engine to an sbxhost host.
package main

import (
	"github.com/sbxhost/sbxhost/plugins/bwrap"
	"github.com/sbxhost/sbxhost/shared"
)

func main() { shared.Serve(bwrap.New()) }
