//go:build !unix

package prompt

import (
	"context"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/host"
)

// Trust is not kept here, and so nothing is asked.
func ask(context.Context, *cli.App, func(host.TerminalSize) string) (string, error) {
	return "", errNoTerminal
}

func showChange(*cli.App, string, string) {}
