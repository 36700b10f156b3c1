package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/keep"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/review"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/config"
)

// values returns what a word of a command line can be, after words. Some of it begins with typed.
type values func(a *cli.App, words []string, typed string) []string

// flagValues returns what a flag's value can be, by the flag's name.
func flagValues(name string) values {
	switch name {
	case "sandbox":
		return sandboxNames
	case "session":
		return sessionName
	case "review":
		return reviewName
	case "config":
		return hclFile
	case "C":
		return directory
	case "result", "events", "path":
		return anyFile
	case "network", "write":
		return oneOf("true", "false")
	case "scope":
		return oneOf("once", "session", "always")
	}
	return nil
}

func oneOf(words ...string) values {
	return func(*cli.App, []string, string) []string { return words }
}

func anyFile(a *cli.App, _ []string, typed string) []string   { return filesOf(a, "*", typed) }
func hclFile(a *cli.App, _ []string, typed string) []string   { return filesOf(a, "*.hcl", typed) }
func directory(a *cli.App, _ []string, typed string) []string { return filesOf(a, "", typed) }

func sessionName(a *cli.App, _ []string, _ string) []string { return keep.SessionNames(a) }
func reviewName(a *cli.App, _ []string, _ string) []string  { return review.Names(a) }

func engineName(*cli.App, []string, string) []string {
	return []string{"native", "bwrap", "landlock", "noop", "seatbelt"}
}

// offer prints the words that may follow the shell's line in COMP_LINE.
func offer(a *cli.App, line string) {
	if point, err := strconv.Atoi(a.Getenv("COMP_POINT")); err == nil && point >= 0 && point < len(line) {
		line = line[:point]
	}
	words := strings.Fields(line)[1:] // after sbxhost
	typed := ""
	if len(words) > 0 && !strings.HasSuffix(line, " ") {
		typed, words = words[len(words)-1], words[:len(words)-1]
	}
	for _, option := range options(a, words, typed) {
		// For -network=t, a shell completes only the text after the sign.
		if _, value, ok := strings.Cut(typed, "="); ok && isFlag(typed) && strings.HasPrefix(option, value) || strings.HasPrefix(option, typed) {
			fmt.Fprintln(a.Stdout, option)
		}
	}
}

// options returns the words that may follow words. Some of them begin with typed.
func options(a *cli.App, words []string, typed string) []string {
	c, ok := lookup(words)
	switch {
	case !ok && isFlag(typed):
		return []string{"-help", "-version"}
	case c.define == nil:
		return below(c.name)
	}
	fs := cli.NewFlags(c.name)
	c.define(a, fs)
	before := typed
	if i := strings.IndexByte(typed, '='); i > 0 {
		before, typed = typed[:i], typed[i+1:]
	} else if before = ""; len(words) > 0 {
		before = words[len(words)-1]
	}
	of := c.args
	if f := fs.Lookup(strings.TrimLeft(before, "-")); f != nil && isFlag(before) && !isBool(f) {
		of = flagValues(f.Name)
	} else if isFlag(typed) {
		of = func(*cli.App, []string, string) (names []string) {
			fs.VisitAll(func(f *flag.Flag) { names = append(names, "-"+f.Name) })
			return names
		}
	}
	if of == nil {
		return nil
	}
	return of(a, words, typed)
}

func isBool(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// filesOf returns the directories, and the files that match a pattern, that begin with a typed
// path. If only one directory matches, it returns that directory's content: a shell would otherwise
// take the directory for the complete word.
func filesOf(a *cli.App, pattern, typed string) []string {
	dir, _ := filepath.Split(typed)
	entries, err := os.ReadDir(a.Absolute(dir))
	if err != nil {
		return nil
	}
	var found []string
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(a.Absolute(dir), e.Name()))
		switch {
		case !strings.HasPrefix(dir+e.Name(), typed) || err != nil:
		case info.IsDir():
			found = append(found, dir+e.Name()+"/")
		default:
			if ok, _ := filepath.Match(pattern, e.Name()); ok {
				found = append(found, dir+e.Name())
			}
		}
	}
	if len(found) == 1 && strings.HasSuffix(found[0], "/") {
		return append(found, filesOf(a, pattern, found[0])...)
	}
	return found
}

func approvalID(a *cli.App, _ []string, _ string) (ids []string) {
	if store, err := setup.Caller(a).Store(); err == nil {
		list, _ := store.List()
		for _, approval := range list {
			ids = append(ids, approval.ID)
		}
	}
	return ids
}

// sandboxNames completes the names in the configuration that would be in force.
func sandboxNames(a *cli.App, words []string, _ string) []string {
	explicit := ""
	for i, word := range words {
		if (word == "-config" || word == "--config") && i+1 < len(words) {
			explicit = words[i+1]
		}
	}
	path, origin, err := setup.Caller(a).Find(explicit)
	if err != nil {
		return nil
	}
	// A key press must not evaluate an untrusted file, nor ask a question.
	if origin == config.OriginWorkspace && !setup.Caller(a).Trusts(path) {
		return nil
	}
	file, _ := config.Load(path, setup.Caller(a).EvalInput())
	return file.Names()
}
