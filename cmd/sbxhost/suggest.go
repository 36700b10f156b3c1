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

// unknownCommand is the error for a word that is no command, by itself or after the
// one that others stand below. It names the one that may have been meant.
func unknownCommand(a *cli.App, parent, word string) error {
	full := strings.TrimSpace(parent + " " + word)
	help := strings.TrimSpace("sbxhost "+parent) + " -help"
	message := fmt.Sprintf("there is no command %q", full)
	hint := help + " lists what there is"
	near := cli.Meant(word, below(parent))
	if full == "run" { // as other tools have it
		near = "exec"
	}
	if near != "" {
		message += fmt.Sprintf("; did you mean %q?", near)
	} else if parent == "" && hasProgram(a, word) {
		hint = "to run it in a sandbox: sbxhost exec -- " + cli.ShellQuote(word)
	}
	return cli.Hint(errors.New(message), hint)
}

// hasProgram reports whether a shell would find a program by this word.
func hasProgram(a *cli.App, word string) bool {
	return slices.ContainsFunc(filepath.SplitList(a.Getenv("PATH")), func(dir string) bool {
		info, err := os.Stat(filepath.Join(dir, word))
		return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
	})
}
