package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/source"
)

// NewFlags returns a flag set that prints nothing itself.
func NewFlags(name string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	return fs
}

// Usage returns the error for a wrong command line.
func Usage(fs *flag.FlagSet, err error) error {
	return Hint(fmt.Errorf("%s: %w", fs.Name(), meantFlag(fs, err)), fmt.Sprintf("see sbxhost %s -help", fs.Name()))
}

// ConfigFlag registers -config.
func ConfigFlag(fs *flag.FlagSet) *string {
	path := new(string)
	NameVar(fs, path, "config", "file")
	return path
}

// NameVar registers a flag that refuses an empty name. With -config "$FILE" and an empty variable,
// a stranger's file, or another policy, would otherwise be in force.
func NameVar(fs *flag.FlagSet, to *string, flag, what string) {
	fs.Func(flag, "", func(s string) error {
		if *to = s; s == "" {
			return errors.New("name a " + what + ", or leave it out")
		}
		return nil
	})
}

func JSONFlag(fs *flag.FlagSet) *bool { return fs.Bool("json", false, "") }

// meantFlag says that there is no such flag, and suggests a similar one. Package flag gives this
// error no type.
func meantFlag(fs *flag.FlagSet, err error) error {
	name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !ok {
		return err
	}
	var names []string
	fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	near := map[string]string{"e": "env", "env-file": "env", "p": "publish", "w": "C", "workdir": "C"}[name] // flags of docker and others
	if !slices.Contains(names, near) {
		near = source.Nearest(name, names)
	}
	if near != "" {
		return fmt.Errorf("there is no flag -%s; did you mean -%s?", name, near)
	}
	return fmt.Errorf("there is no flag -%s", name)
}
