package main

import (
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/consent"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/doctor"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/engines"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/execute"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/explain"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/keep"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/review"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/internal/serve"
)

func run(builtins host.Builtins, args []string) int {
	// The caller's open files are private: engines in other languages would inherit them, and pass
	// them on to their commands.
	_ = proc.CloseOnExecFrom(3)
	// A umask that also takes rights from the owner makes directories that their owner cannot use:
	// a session's directories would stay behind.
	unix.Umask(unix.Umask(0o077) & 0o077)
	a := &cli.App{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Caller: inforce.Caller{Dir: inforce.WorkingDir(), Environ: os.Environ(), Builtins: builtins},
	}
	status := runLine(a, args)
	serve.EndBy(a.Ended, status)
	return status
}

// command is one subcommand. Its help is the file of its name in help.
type command struct {
	name    string // "engines test"
	foreign bool   // its own flags precede another program's command line
	nargs   int    // its maximum number of arguments; -1 means any number
	// define registers the flags, and returns the function to call after they are parsed. It is nil for
	// a command that only has subcommands.
	define func(*cli.App, *flag.FlagSet) func() error
}

func commands() []command {
	return []command{
		{name: "approvals"},
		{name: "approvals add", foreign: true, nargs: -1, define: consent.Add},
		{name: "approvals list", define: consent.List},
		{name: "approvals revoke", nargs: -1, define: consent.Revoke},
		{name: "doctor", nargs: -1, define: doctor.Command},
		{name: "engines"},
		{name: "engines test", nargs: 1, define: engines.Test},
		{name: "exec", foreign: true, nargs: -1, define: execute.Exec},
		{name: "explain", foreign: true, nargs: -1, define: explain.Command},
		{name: "fmt", nargs: -1, define: formatAll},
		{name: "init", nargs: 1, define: writeSample},
		{name: "review"},
		{name: "review apply", nargs: -1, define: review.Apply},
		{name: "review discard", nargs: -1, define: review.Discard},
		{name: "review list", define: review.List},
		{name: "review show", nargs: -1, define: review.Show},
		{name: "review undo", define: review.Undo},
		{name: "serve", define: keep.Serve},
		{name: "sessions"},
		{name: "sessions list", nargs: -1, define: keep.SessionsList},
		{name: "sessions logs", nargs: 1, define: keep.SessionsLogs},
		{name: "sessions rm", nargs: -1, define: keep.SessionsRm},
		{name: "shell", nargs: -1, define: execute.Shell},
		{name: "trust", nargs: 1, define: consent.Trust},
		{name: "validate", define: explain.Validate},
	}
}

// lookup finds the command at the start of a line of words.
func lookup(words []string) (found command, ok bool) {
	for _, c := range commands() {
		name := strings.Fields(c.name)
		if len(name) <= len(words) && len(c.name) > len(found.name) && slices.Equal(name, words[:len(name)]) {
			found, ok = c, true
		}
	}
	return found, ok
}

// below lists the words that may follow a command's name, or the commands for "".
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

// help returns the help of a command, or that of sbxhost for "".
func help(name string) string {
	file := strings.ReplaceAll(name, " ", "-")
	if file == "" {
		file = "sbxhost"
	}
	text, err := helpTexts.ReadFile("help/" + file + ".txt")
	if err != nil {
		panic(err) // a test checks that each file exists
	}
	return string(text)
}

func isHelp(word string) bool { return word == "-h" || word == "-help" || word == "--help" }

func isFlag(word string) bool { return strings.HasPrefix(word, "-") }

// runLine runs a command line and returns the exit status.
func runLine(a *cli.App, args []string) int {
	if line := a.Getenv("COMP_LINE"); line != "" {
		offer(a, line)
		return 0
	}
	return a.Fail(dispatch(a, args))
}

func dispatch(a *cli.App, args []string) error {
	if len(args) > 0 {
		switch strings.Replace(args[0], "--", "-", 1) {
		case "help":
			args = append(slices.Clone(args[1:]), "-help")
		case "-v", "-version":
			return a.Print(version())
		}
	}
	var flags []string // before the name of a command
	for len(args) > 0 && isFlag(args[0]) {
		flags, args = append(flags, args[0]), args[1:]
	}
	c, ok := lookup(args)
	rest := args[len(strings.Fields(c.name)):]
	if len(args) > 0 && !ok || c.define == nil && len(rest) > 0 && !isFlag(rest[0]) {
		return unknownCommand(c.name, rest[0])
	}
	asked := slices.ContainsFunc(flags, isHelp)
	if !c.foreign { // a help flag after that belongs to the other program
		own := rest
		if i := slices.Index(own, "--"); i >= 0 {
			own = own[:i]
		}
		asked = asked || slices.ContainsFunc(own, isHelp)
	}
	switch {
	case asked:
		return a.Print(help(c.name))
	case c.define == nil: // nobody asked for this help
		io.WriteString(a.Stderr, help(c.name))
		return cli.Exit(cli.StatusFailed)
	case len(flags) > 0:
		return cli.Hint(fmt.Errorf("%s stands before the command", flags[0]), "flags follow the name of their command: sbxhost "+c.name+" -help")
	}
	fs := cli.NewFlags(c.name)
	a.CommandLine = rest
	run := c.define(a, fs)
	switch err := fs.Parse(rest); {
	case errors.Is(err, flag.ErrHelp):
		return a.Print(help(c.name))
	case err != nil:
		return cli.Usage(fs, err)
	case c.nargs > 0 && fs.NArg() > c.nargs && isFlag(fs.Arg(c.nargs)):
		return cli.Usage(fs, fmt.Errorf("flags come before %q: %s", fs.Arg(0), fs.Arg(c.nargs)))
	case c.nargs >= 0 && fs.NArg() > c.nargs:
		return cli.Usage(fs, fmt.Errorf("unexpected argument %q", fs.Arg(c.nargs)))
	}
	return run()
}
