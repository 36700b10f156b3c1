//go:build !unix

package execute

import (
	"flag"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
)

// These need an engine, which there is none of.
func Exec(*cli.App, *flag.FlagSet) func() error  { return nil }
func Shell(*cli.App, *flag.FlagSet) func() error { return nil }
