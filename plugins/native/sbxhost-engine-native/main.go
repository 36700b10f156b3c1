//go:debug containermaxprocs=0

// Command sbxhost-engine-native serves the native engine to an sbxhost host.
package main

import (
	"github.com/sbxhost/sbxhost/plugins/native"
	"github.com/sbxhost/sbxhost/shared"
)

func main() { shared.Serve(native.New()) }
