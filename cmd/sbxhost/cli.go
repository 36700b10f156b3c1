package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/posener/complete"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/sandboxinit"
)

// app is what every subcommand has: the streams it speaks by and the world it
// sees.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	dir            string // current directory; empty means to ask the system

	builtins host.Builtins
	inject   map[string]shared.Engine // ahead of all other engines
}

func run(builtins host.Builtins, args []string) int {
	// What the caller has open is nobody else's: engines in other languages would
	// inherit it, and pass it on to their commands.
	_ = sandboxinit.CloseOnExecFrom(3)
	a := &app{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		environ: os.Environ(), builtins: builtins,
	}
	return a.run(args)
}

// subcommand is one command as its file defines it.
type subcommand interface {
	Help() string
	Synopsis() string // one line
	// Run gives the status to exit with, or statusHelp.
	Run(args []string) int
	AutocompleteArgs() complete.Predictor
	AutocompleteFlags() complete.Flags
	// takesCommand says that a foreign command line follows its own flags.
	takesCommand() bool
}

func (a *app) subcommands() map[string]subcommand {
	return map[string]subcommand{
		"exec":             &execCommand{app: a},
		"shell":            &shellCommand{app: a},
		"explain":          &explainCommand{app: a},
		"validate":         &validateCommand{app: a},
		"fmt":              &fmtCommand{app: a},
		"init":             &initCommand{app: a},
		"trust":            &trustCommand{app: a},
		"approvals":        &approvalsCommand{app: a},
		"approvals list":   &approvalsListCommand{app: a},
		"approvals add":    &approvalsAddCommand{app: a},
		"approvals revoke": &approvalsRevokeCommand{app: a},
		"approvals clear":  &approvalsClearCommand{app: a},
		"engines":          &enginesCommand{app: a},
		"engines list":     &enginesListCommand{app: a},
		"engines probe":    &enginesProbeCommand{app: a},
		"engines schema":   &enginesSchemaCommand{app: a},
		"engines pin":      &enginesPinCommand{app: a},
		"engines verify":   &enginesVerifyCommand{app: a},
		"engines test":     &enginesTestCommand{app: a},
		"doctor":           &doctorCommand{app: a},
		"sessions":         &sessionsCommand{app: a},
		"sessions list":    &sessionsListCommand{app: a},
		"sessions rm":      &sessionsRmCommand{app: a},
		"version":          &versionCommand{app: a},
	}
}

// statusHelp is what a subcommand returns that only has others below it.
const statusHelp = -1

// run dispatches a command line and returns the status to exit with.
func (a *app) run(args []string) int {
	commands := a.subcommands()
	if line := a.getenv("COMP_LINE"); line != "" {
		a.offer(commands, line)
		return 0
	}
	if len(args) > 0 {
		switch strings.Replace(args[0], "--", "-", 1) {
		case "help":
			args = append(slices.Clone(args[1:]), "-help")
		case "-v", "-version":
			args = []string{"version"}
		case "-autocomplete-install", "-autocomplete-uninstall":
			if err := a.setCompletion(strings.HasSuffix(args[0], "-install")); err != nil {
				return a.fail(fmt.Errorf("completion: %w", err))
			}
			return 0
		}
	}
	if status, unknown := a.unknownCommand(commands, args); unknown {
		return status
	}
	flags := args // before the name of a command
	if i := slices.IndexFunc(args, func(word string) bool { return !strings.HasPrefix(word, "-") }); i >= 0 {
		flags, args = args[:i], args[i:]
	} else {
		args = nil
	}
	name, command := "", subcommand(nil)
	for words := 1; words <= min(2, len(args)); words++ {
		if c := commands[strings.Join(args[:words], " ")]; c != nil {
			name, command = strings.Join(args[:words], " "), c
		}
	}
	args = args[strings.Count(name, " ")+min(1, len(name)):]
	asked := slices.ContainsFunc(flags, isHelp)
	if command == nil || !command.takesCommand() { // a question in a foreign line is not to us
		own := args
		if i := slices.Index(args, "--"); i >= 0 {
			own = args[:i]
		}
		asked = asked || slices.ContainsFunc(own, isHelp)
	}
	switch {
	case asked && command != nil:
		fmt.Fprintln(a.stdout, help(commands, name))
		return 0
	case asked && len(args) == 0:
		fmt.Fprintln(a.stdout, topHelp(commands))
		return 0
	case command == nil:
		fmt.Fprintln(a.stderr, topHelp(commands))
		return statusFailed
	case len(flags) > 0:
		return a.fail(&hinted{fmt.Errorf("%s stands before the command", flags[0]), "flags follow the name of their command: sbxhost " + name + " -help"})
	}
	status := command.Run(args)
	if status == statusHelp {
		fmt.Fprintln(a.stderr, help(commands, name))
		return statusFailed // help that nobody asked for
	}
	return status
}

func isHelp(word string) bool { return word == "-h" || word == "-help" || word == "--help" }

// below lists the commands one word below name, by that word.
func below(commands map[string]subcommand, name string) []string {
	var list []string
	for _, other := range slices.Sorted(maps.Keys(commands)) {
		if word, ok := strings.CutPrefix(other, name+" "); ok {
			list = append(list, word)
		}
	}
	return list
}

// help is that of a command, with those below it.
func help(commands map[string]subcommand, name string) string {
	text, words := commands[name].Help(), below(commands, name)
	longest := 0
	for _, word := range words {
		longest = max(longest, len(word))
	}
	if len(words) > 0 {
		text += "\n\nSubcommands:"
	}
	for _, word := range words {
		text += fmt.Sprintf("\n    %-*s    %s", longest, word, commands[name+" "+word].Synopsis())
	}
	return text
}

func topHelp(commands map[string]subcommand) string {
	var b strings.Builder
	b.WriteString(`Usage: sbxhost [-help] [-version] COMMAND [ARGUMENTS]

Run commands that nobody has read yet in a fresh, lightweight sandbox each.

Commands:
`)
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		if !strings.Contains(name, " ") {
			fmt.Fprintf(&b, "  %-9s %s\n", name, commands[name].Synopsis())
		}
	}
	b.WriteString(`
Examples:
  sbxhost exec -- make test              with the configuration in force, or none
  sbxhost exec -sandbox fast -c 'npm ci && npm test'
  sbxhost explain -sandbox fast          what a command would see, and why
  sbxhost init                           write a commented config.hcl

"sbxhost COMMAND -help" says more. "sbxhost -autocomplete-install" sets up
completion for your shell. SBXHOST_LOG=debug shows what goes on.`)
	return b.String()
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

// cwd is the current directory.
func (a *app) cwd() (string, error) {
	if a.dir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return "", fmt.Errorf("current directory: %w", err)
		}
		a.dir = dir
	}
	return a.dir, nil
}
