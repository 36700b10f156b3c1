package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/cli"

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
	cli.Command
	cli.CommandAutocomplete
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

// run dispatches a command line and returns the status to exit with.
func (a *app) run(args []string) int {
	if len(args) > 0 {
		switch args[0] {
		case "help":
			args = append(slices.Clone(args[1:]), "-help")
		case "-v", "-version", "--version":
			args = []string{"version"}
		}
	}
	commands := a.subcommands()
	if status, unknown := a.unknownCommand(commands, args); unknown {
		return status
	}
	for words := 1; words <= min(2, len(args)); words++ {
		if c, ok := commands[strings.Join(args[:words], " ")]; ok && c.takesCommand() {
			// Package cli takes every -h of a line for its own, and `exec ls -h`
			// is a question to ls. What follows -- it leaves alone.
			args = slices.Concat(args[:words], []string{"--"}, args[words:])
			break
		}
	}
	ran := false
	c := &cli.CLI{
		Name: "sbxhost", Args: args,
		HelpFunc: topHelp, HelpWriter: a.stdout, ErrorWriter: a.stderr,
		Commands: make(map[string]cli.CommandFactory, len(commands)),
		// Building the completer instantiates every command.
		Autocomplete: a.getenv("COMP_LINE") != "" || len(args) > 0 && strings.Contains(args[0], "-autocomplete-"),
	}
	for name, command := range commands {
		c.Commands[name] = func() (cli.Command, error) {
			return &dispatched{subcommand: command, ran: &ran}, nil
		}
	}
	status, err := c.Run()
	switch {
	case err != nil:
		return a.fail(err)
	case status != 0 && !ran:
		return statusFailed // help that nobody asked for: package cli says 1 or 127
	}
	return status
}

// dispatched notes that a command ran, since package cli has statuses of its
// own that are those of commands, too.
type dispatched struct {
	subcommand
	ran *bool
}

func (d *dispatched) Run(args []string) int {
	if d.takesCommand() && len(args) > 0 {
		args = args[1:] // the -- that was put there
	}
	status := d.subcommand.Run(args)
	*d.ran = status != cli.RunResultHelp
	return status
}

func topHelp(commands map[string]cli.CommandFactory) string {
	var b strings.Builder
	b.WriteString(`Usage: sbxhost [-help] [-version] COMMAND [ARGUMENTS]

Run commands that nobody has read yet in a fresh, lightweight sandbox each.

Commands:
`)
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		if c, err := commands[name](); err == nil {
			fmt.Fprintf(&b, "  %-9s %s\n", name, c.Synopsis())
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
