//go:debug containermaxprocs=0

// Command sbxhost-engine-docker serves the docker engine to an sbxhost host. It is a separate
// program because Docker's client takes longer to initialise than all of sbxhost. Install it beside
// sbxhost.
package main

import (
	"github.com/sbxhost/sbxhost/plugins/docker"
	"github.com/sbxhost/sbxhost/shared"
)

func main() { shared.Serve(docker.New()) }
