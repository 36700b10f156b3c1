//go:build !linux

package keep

import (
	"flag"
	"runtime"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/shared"
)

// Serve needs a system that identifies the processes that connect to a socket.
func Serve(*cli.App, *flag.FlagSet) func() error {
	return func() error {
		return &shared.Error{Kind: shared.ErrUnusable, Message: "serve needs Linux, and this is " + runtime.GOOS}
	}
}
