//go:debug containermaxprocs=0

// Command sbxhost-engine-noop serves the engine that does not isolate.
package main

import (
	"github.com/sbxhost/sbxhost/plugins/noop"
	"github.com/sbxhost/sbxhost/shared"
)

func main() { shared.Serve(noop.New()) }
