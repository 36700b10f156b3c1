//go:build !unix

package doctor

import (
	"flag"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
)

// These need an engine, which there is none of.
func Command(*cli.App, *flag.FlagSet) func() error { return nil }
