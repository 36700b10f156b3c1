package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
)

// refusedRoot says what to do about a workspace that is too broad, which is
// what a first try in a home directory meets.
func refusedRoot(s *setup, err error) error {
	if !errors.Is(err, host.ErrRefusedRoot) {
		return err
	}
	if s != nil && s.options.Workspace.Root != "" {
		return &hinted{err, "a command may write all of its workspace: name the directory of one project as workspace.root in " + nameOf(s.file)}
	}
	return &hinted{err, "a command may write all of its workspace, which is the git top level here or else the current directory: cd to a project first, or set workspace.root in a configuration"}
}

// unknownCommand refuses what is no subcommand by its name, with the one that
// may have been meant. A command line without any is left to run.
func (a *app) unknownCommand(commands map[string]subcommand, args []string) (status int, unknown bool) {
	if len(args) == 0 || args[0] == "" || strings.HasPrefix(args[0], "-") {
		return 0, false
	}
	var top, below []string
	for name := range commands {
		if parent, child, ok := strings.Cut(name, " "); !ok {
			top = append(top, name)
		} else if parent == args[0] {
			below = append(below, child)
		}
	}
	word, full, candidates, help := args[0], args[0], top, "sbxhost -help"
	if slices.Contains(top, word) {
		if len(below) == 0 || len(args) < 2 || strings.HasPrefix(args[1], "-") || slices.Contains(below, args[1]) {
			return 0, false
		}
		word, full, candidates, help = args[1], args[0]+" "+args[1], below, "sbxhost "+args[0]+" -help"
	}
	slices.Sort(candidates)
	message := fmt.Sprintf("there is no command %q", full)
	hint := help + " lists what there is"
	if near := meant(word, candidates); near != "" {
		message += fmt.Sprintf("; did you mean %q?", near)
	} else if lookOnHost(word, a.getenv("PATH")) != "" && help == "sbxhost -help" {
		hint = "to run it in a sandbox: sbxhost exec -- " + shellQuote(word)
	}
	return a.fail(&hinted{errors.New(message), hint}), true
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
