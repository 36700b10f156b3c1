package main

import (
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
)

// offer prints the commands and flags that may follow the shell's line in COMP_LINE. Where none can,
// the shell offers files.
func offer(a *cli.App, line string) {
	if point, err := strconv.Atoi(a.Getenv("COMP_POINT")); err == nil && point >= 0 && point < len(line) {
		line = line[:point]
	}
	words := strings.Fields(line)
	words = words[min(1, len(words)):] // after sbxhost
	typed := ""
	if len(words) > 0 && !strings.HasSuffix(line, " ") {
		typed, words = words[len(words)-1], words[:len(words)-1]
	}
	for _, option := range options(a, words, typed) {
		if strings.HasPrefix(option, typed) {
			fmt.Fprintln(a.Stdout, option)
		}
	}
}

// options returns the words that may follow words. Some of them begin with typed.
func options(a *cli.App, words []string, typed string) (names []string) {
	c, ok := lookup(words)
	switch {
	case !ok && isFlag(typed):
		return []string{"-help", "-version"}
	case c.define == nil:
		return below(c.name)
	case isFlag(typed):
		fs := cli.NewFlags(c.name)
		c.define(a, fs)
		fs.VisitAll(func(f *flag.Flag) { names = append(names, "-"+f.Name) })
	}
	return names
}
