//go:build !linux

package keep

import (
	"errors"
	"flag"
	"runtime"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/shared"
)

// keeping is nobody here: no engine of these systems keeps processes.
type keeping struct{ pid int }

var errNotKept = errors.New("nothing runs in it")

func findKeeper(*cli.App, string) (*keeping, error) { return nil, errNotKept }
func (*keeping) end() error                         { return nil }
func (*keeping) close()                             {}

// Serve needs a system that says who has connected to a socket.
func Serve(*cli.App, *flag.FlagSet) func() error {
	return func() error {
		return &shared.Error{Kind: shared.ErrUnusable, Message: "serve needs Linux, and this is " + runtime.GOOS}
	}
}
