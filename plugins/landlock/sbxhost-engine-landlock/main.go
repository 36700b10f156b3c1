//go:debug containermaxprocs=0

// Command sbxhost-engine-landlock serves the Landlock engine to an sbxhost host.
package main

import (
	"github.com/sbxhost/sbxhost/plugins/landlock"
	"github.com/sbxhost/sbxhost/shared"
)

func main() { shared.Serve(landlock.New()) }
