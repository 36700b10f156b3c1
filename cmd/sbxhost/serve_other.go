//go:build !linux

package main

import (
	"flag"
	"runtime"

	"github.com/sbxhost/sbxhost/shared"
)

// serve needs a system that says who has connected to a socket.
func (a *app) serve(*flag.FlagSet) func() error {
	return func() error {
		return &shared.Error{Kind: shared.ErrUnusable, Message: "serve needs Linux, and this is " + runtime.GOOS}
	}
}
