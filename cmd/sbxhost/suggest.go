package main

import (
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/config"
)

// unknownCommand is the error for a word that is no command, by itself or after the
// one that others stand below. It names the one that may have been meant.
func (a *app) unknownCommand(parent, word string) error {
	full := strings.TrimSpace(parent + " " + word)
	help := strings.TrimSpace("sbxhost "+parent) + " -help"
	message := fmt.Sprintf("there is no command %q", full)
	hint := help + " lists what there is"
	if near := meant(word, below(parent)); near != "" {
		message += fmt.Sprintf("; did you mean %q?", near)
	} else if parent == "" && a.hasProgram(word) {
		hint = "to run it in a sandbox: sbxhost exec -- " + shellQuote(word)
	}
	return &hinted{errors.New(message), hint}
}

// hasProgram reports whether a shell would find a program by this word.
func (a *app) hasProgram(word string) bool {
	return slices.ContainsFunc(filepath.SplitList(a.getenv("PATH")), func(dir string) bool {
		_, err := exec.LookPath(filepath.Join(dir, word))
		return err == nil
	})
}

// meantFlag says in our words that there is no such flag, and which one may have
// been meant. Package flag gives this error no type.
func meantFlag(fs *flag.FlagSet, err error) error {
	name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !ok {
		return err
	}
	var names []string
	fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	if near := meant(name, names); near != "" {
		return fmt.Errorf("there is no flag -%s; did you mean -%s?", name, near)
	}
	return fmt.Errorf("there is no flag -%s", name)
}

// meant gives the candidate that a word is a misspelling or the beginning of.
func meant(word string, candidates []string) string {
	if near := config.Nearest(word, candidates); near != "" || len(word) < 2 {
		return near
	}
	found := ""
	for _, c := range candidates {
		if strings.HasPrefix(c, word) {
			if found != "" {
				return "" // of two, neither is sure
			}
			found = c
		}
	}
	return found
}
