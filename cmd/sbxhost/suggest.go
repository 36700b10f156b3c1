package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/internal/source"
)

// unknownCommand returns the error for an unknown command or subcommand. It names a similar one.
func unknownCommand(parent, word string) error {
	full := strings.TrimSpace(parent + " " + word)
	help := strings.TrimSpace("sbxhost "+parent) + " -help"
	message := fmt.Sprintf("there is no command %q", full)
	hint := help + " lists what there is"
	near := source.Nearest(word, below(parent))
	if full == "run" { // other tools have this command
		near = "exec"
	}
	if near != "" {
		message += fmt.Sprintf("; did you mean %q?", near)
	} else if parent == "" {
		hint += "; to run a program in a sandbox: sbxhost exec -- " + cli.ShellQuote(word)
	}
	return cli.Hint(errors.New(message), hint)
}
