//go:build !unix

package engines

import (
	"flag"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
)

// These need an engine, which there is none of.
func Test(*cli.App, *flag.FlagSet) func() error { return nil }
