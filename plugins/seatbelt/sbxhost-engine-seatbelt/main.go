//go:debug containermaxprocs=0

// Command sbxhost-engine-seatbelt serves the seatbelt engine to an sbxhost host.
package main

import (
	"github.com/sbxhost/sbxhost/plugins/seatbelt"
	"github.com/sbxhost/sbxhost/shared"
)

func main() { shared.Serve(seatbelt.New()) }
