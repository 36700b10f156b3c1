package main

import (
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// app is what every subcommand has: the streams it speaks by and the world it
// sees.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	dir            string   // current directory; empty where it was removed
	words          []string // of the command line, flags too
	foreign        []string // other tools' configurations, which were passed by

	builtins host.Builtins
	inject   map[string]shared.Engine // ahead of all other engines
}

func run(builtins host.Builtins, args []string) int {
	settleProcess()
	a := &app{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		environ: os.Environ(), builtins: builtins,
	}
	a.dir, _ = os.Getwd()
	return a.run(args)
}

// command is one subcommand. Its help is the file of its name in help.
type command struct {
	name    string // "engines list"
	foreign bool   // another program's command line follows its own flags
	nargs   int    // how many arguments it takes at most; -1: any number
	args    values // what an argument can be, for completion
	// define registers the flags and gives what runs the command once they are
	// parsed, or nil for one that this system has not. It is nil for a command that only
	// has others below it.
	define func(*app, *flag.FlagSet) func() error
}

func commands() []command {
	return []command{
		{name: "approvals"},
		{name: "approvals add", foreign: true, nargs: -1, args: anyFile, define: (*app).approvalsAdd},
		{name: "approvals clear", define: (*app).approvalsClear},
		{name: "approvals list", define: (*app).approvalsList},
		{name: "approvals revoke", nargs: -1, args: approvalID, define: (*app).approvalsRevoke},
		{name: "doctor", define: (*app).doctor},
		{name: "engines"},
		{name: "engines list", define: (*app).enginesList},
		{name: "engines pin", nargs: -1, define: (*app).enginesPin},
		{name: "engines probe", nargs: -1, args: engineName, define: (*app).enginesProbe},
		{name: "engines schema", nargs: -1, args: engineName, define: (*app).enginesSchema},
		{name: "engines test", nargs: 1, args: engineName, define: (*app).enginesTest},
		{name: "engines verify", nargs: -1, define: (*app).enginesVerify},
		{name: "exec", foreign: true, nargs: -1, args: anyFile, define: (*app).exec},
		{name: "explain", foreign: true, nargs: -1, args: anyFile, define: (*app).explain},
		{name: "fmt", nargs: -1, args: hclFile, define: (*app).fmt},
		{name: "init", nargs: 1, args: directory, define: (*app).init},
		{name: "review"},
		{name: "review apply", nargs: -1, args: reviewName, define: (*app).reviewApply},
		{name: "review diff", nargs: -1, args: reviewName, define: (*app).reviewDiff},
		{name: "review discard", nargs: -1, args: reviewName, define: (*app).reviewDiscard},
		{name: "review list", define: (*app).reviewList},
		{name: "review show", nargs: -1, args: reviewName, define: (*app).reviewShow},
		{name: "review undo", define: (*app).reviewUndo},
		{name: "serve", define: (*app).serve},
		{name: "sessions"},
		{name: "sessions list", nargs: -1, args: sessionName, define: (*app).sessionsList},
		{name: "sessions logs", nargs: 1, args: sessionName, define: (*app).sessionsLogs},
		{name: "sessions ps", nargs: 1, args: sessionName, define: (*app).sessionsPs},
		{name: "sessions rm", nargs: -1, args: sessionName, define: (*app).sessionsRm},
		{name: "shell", nargs: -1, define: (*app).shell},
		{name: "trust", nargs: 1, args: hclFile, define: (*app).trust},
		{name: "validate", define: (*app).validate},
		{name: "version", define: (*app).version},
	}
}

// lookup finds the command that a line of words begins with.
func lookup(words []string) (found command, ok bool) {
	for _, c := range commands() {
		name := strings.Fields(c.name)
		if len(name) <= len(words) && len(c.name) > len(found.name) && slices.Equal(name, words[:len(name)]) {
			found, ok = c, true
		}
	}
	return found, ok
}

// below lists the words that may follow a command's name; of "", the commands.
func below(name string) []string {
	var list []string
	for _, c := range commands() {
		if parent, word := cutLast(c.name); parent == name {
			list = append(list, word)
		}
	}
	return list
}

func cutLast(name string) (before, last string) {
	i := strings.LastIndexByte(name, ' ')
	return name[:max(i, 0)], name[i+1:]
}

//go:embed help/*.txt
var helpTexts embed.FS

// help is the help of a command; of "", that of sbxhost.
func help(name string) string {
	file := strings.ReplaceAll(name, " ", "-")
	if file == "" {
		file = "sbxhost"
	}
	text, err := helpTexts.ReadFile("help/" + file + ".txt")
	if err != nil {
		panic(err) // a test looks for each
	}
	return string(text)
}

func isHelp(word string) bool { return word == "-h" || word == "-help" || word == "--help" }

func isFlag(word string) bool { return strings.HasPrefix(word, "-") }

// run runs a command line and returns the status to exit with.
func (a *app) run(args []string) int {
	if line := a.getenv("COMP_LINE"); line != "" {
		a.offer(line)
		return 0
	}
	return a.fail(a.dispatch(args))
}

func (a *app) dispatch(args []string) error {
	if len(args) > 0 {
		switch word := strings.Replace(args[0], "--", "-", 1); word {
		case "help":
			args = append(slices.Clone(args[1:]), "-help")
		case "-v", "-version":
			args = []string{"version"}
		case "-autocomplete-install", "-autocomplete-uninstall":
			return a.setCompletion(word == "-autocomplete-install")
		}
	}
	var flags []string // before the name of a command
	for len(args) > 0 && isFlag(args[0]) {
		flags, args = append(flags, args[0]), args[1:]
	}
	c, ok := lookup(args)
	rest := args[len(strings.Fields(c.name)):]
	if len(args) > 0 && !ok || c.define == nil && len(rest) > 0 && !isFlag(rest[0]) {
		return a.unknownCommand(c.name, rest[0])
	}
	asked := slices.ContainsFunc(flags, isHelp)
	if !c.foreign { // a question in another program's line is not to us
		own := rest
		if i := slices.Index(own, "--"); i >= 0 {
			own = own[:i]
		}
		asked = asked || slices.ContainsFunc(own, isHelp)
	}
	switch {
	case asked:
		return a.print(help(c.name))
	case c.define == nil: // help that nobody asked for
		io.WriteString(a.stderr, help(c.name))
		return exit(statusFailed)
	case len(flags) > 0:
		return &hinted{fmt.Errorf("%s stands before the command", flags[0]), "flags follow the name of their command: sbxhost " + c.name + " -help"}
	}
	fs := newFlags(c.name)
	a.words = rest
	run := c.define(a, fs)
	if run == nil {
		return &shared.Error{Kind: shared.ErrUnusable, Message: "no engine isolates on " + runtime.GOOS}
	}
	switch err := fs.Parse(rest); {
	case errors.Is(err, flag.ErrHelp):
		return a.print(help(c.name))
	case err != nil:
		return usage(fs, err)
	case c.nargs >= 0 && fs.NArg() > c.nargs:
		return usage(fs, fmt.Errorf("unexpected argument %q", fs.Arg(c.nargs)))
	}
	return run()
}

// getenv is os.Getenv over a.environ.
func (a *app) getenv(name string) string {
	value, _ := a.lookupEnv(name)
	return value
}

func (a *app) lookupEnv(name string) (value string, found bool) {
	for _, entry := range a.environ {
		if k, v, ok := strings.Cut(entry, "="); ok && k == name {
			value, found = v, true // the last one counts, as in os/exec
		}
	}
	return value, found
}
