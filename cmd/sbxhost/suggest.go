package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
)

// unknownCommand returns the error for an unknown command or subcommand. It names a similar one.
func unknownCommand(a *cli.App, parent, word string) error {
	full := strings.TrimSpace(parent + " " + word)
	help := strings.TrimSpace("sbxhost "+parent) + " -help"
	message := fmt.Sprintf("there is no command %q", full)
	hint := help + " lists what there is"
	near := cli.Meant(word, below(parent))
	if full == "run" { // other tools have this command
		near = "exec"
	}
	if near != "" {
		message += fmt.Sprintf("; did you mean %q?", near)
	} else if parent == "" && hasProgram(a, word) {
		hint = "to run it in a sandbox: sbxhost exec -- " + cli.ShellQuote(word)
	}
	return cli.Hint(errors.New(message), hint)
}

// hasProgram reports whether a shell would find a program of this name.
func hasProgram(a *cli.App, word string) bool {
	return slices.ContainsFunc(filepath.SplitList(a.Getenv("PATH")), func(dir string) bool {
		info, err := os.Stat(filepath.Join(dir, word))
		return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
	})
}
