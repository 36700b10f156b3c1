package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/config"
)

// NewFlags gives a flag set whose errors and help are ours to write.
func NewFlags(name string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	return fs
}

// Usage is the error for a command line that makes no sense.
func Usage(fs *flag.FlagSet, err error) error {
	return Hint(fmt.Errorf("%s: %w", fs.Name(), meantFlag(fs, err)), fmt.Sprintf("see sbxhost %s -help", fs.Name()))
}

// ConfigFlag registers -config.
func ConfigFlag(fs *flag.FlagSet) *string {
	path := new(string)
	NameVar(fs, path, "config", "file")
	return path
}

// NameVar registers a flag that is refused with an empty name: -config "$FILE" with nothing in
// the variable must not put the file of a stranger, or another policy, in force.
func NameVar(fs *flag.FlagSet, to *string, flag, what string) {
	fs.Func(flag, "", func(s string) error {
		if *to = s; s == "" {
			return errors.New("name a " + what + ", or leave it out")
		}
		return nil
	})
}

// JSONFlag registers -json.
func JSONFlag(fs *flag.FlagSet) *bool { return fs.Bool("json", false, "") }

// VerboseFlag registers -v.
func VerboseFlag(fs *flag.FlagSet) *bool { return fs.Bool("v", false, "") }

// meantFlag says in our words that there is no such flag, and which one may have
// been meant. Package flag gives this error no type.
func meantFlag(fs *flag.FlagSet, err error) error {
	name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !ok {
		return err
	}
	var names []string
	fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	near := map[string]string{"e": "env", "env-file": "env", "p": "publish", "w": "C", "workdir": "C"}[name] // of docker's and others'
	if !slices.Contains(names, near) {
		near = Meant(name, names)
	}
	if near != "" {
		return fmt.Errorf("there is no flag -%s; did you mean -%s?", name, near)
	}
	return fmt.Errorf("there is no flag -%s", name)
}

// Meant gives the candidate that a word is a misspelling or the beginning of.
func Meant(word string, candidates []string) string {
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
