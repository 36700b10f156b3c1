package execute

import (
	"errors"
	"flag"
	"strconv"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/terminal"
	"github.com/sbxhost/sbxhost/host"
)

// Exec runs a command in a sandbox.
func Exec(a *cli.App, fs *flag.FlagSet) func() error {
	e := Execution{App: a}
	e.RegisterExec(fs)
	return func() error {
		if !e.Take(fs, false) {
			return cli.Usage(fs, errors.New("no command: give one after --, or a script with -c"))
		}
		return e.runAnywhere(fs)
	}
}

// runAnywhere runs the command here, or in the server that holds its session.
func (e *Execution) runAnywhere(fs *flag.FlagSet) error {
	if kept, err := e.needsServer(fs); err != nil {
		return err
	} else if kept {
		return e.runInServer()
	}
	if e.SessionName() != "" {
		if served, err := e.runServed(); served {
			return err
		}
	}
	return cli.Exit(e.RunAndReport())
}

// Execution is one run of exec or shell.
type Execution struct {
	*cli.App
	flags      setup.Flags
	args       []string
	quiet      bool // prints neither notes nor hints
	noNotes    bool // prints no notes
	trace      bool
	resultPath string
	eventsTo   string
	shell      bool    // reports the use of the network, and not each denial
	Remote     *Remote // the client for whom the command runs; nil for this process's own caller

	preparation
	Taken    int  // how many signals have come, and were for the command
	tty      bool // the command has a terminal, which this process relays
	terminal *terminal.Outer
	report   host.Report
}

func (e *Execution) register(fs *flag.FlagSet) {
	e.flags.Served = e.Remote != nil
	e.flags.Register(e.App, fs)
	fs.StringVar(&e.resultPath, "result", "", "")
	fs.BoolFunc("quiet", "", func(s string) (err error) {
		if e.noNotes = s == "notes"; e.noNotes {
			return nil
		}
		if e.quiet, err = strconv.ParseBool(s); err != nil {
			err = errors.New("write -quiet or -quiet=notes")
		}
		e.noNotes = e.quiet
		return err
	})
	fs.BoolVar(&e.flags.Keep, "keep", false, "")
}

// RegisterExec registers the flags of shell, and those that only exec has.
func (e *Execution) RegisterExec(fs *flag.FlagSet) {
	e.register(fs)
	fs.BoolVar(&e.trace, "trace", false, "")
	fs.StringVar(&e.eventsTo, "events", "", "")
}

// Take takes the command from the parsed flags, if there is one. If shell is set, the command is
// the user's shell.
func (e *Execution) Take(fs *flag.FlagSet, shell bool) bool {
	if shell {
		e.flags.Tty, e.shell = true, true
		e.args = []string{"sh", "-c", userShell, "sh"}
		return true
	}
	e.args = fs.Args()
	return fs.NArg() > 0 || e.flags.Scripted
}

// userShell becomes the shell: only a process inside can find out which shell exists. An account
// without login can still use a sandbox. userShell does not start a login shell, because that reads
// a profile, which often begins with its own PATH.
const userShell = `case ${SHELL##*/} in nologin|false|true) ;; *)
	case $SHELL in /*) if test -f "$SHELL" && test -x "$SHELL"; then exec "$SHELL"; fi ;; esac ;;
esac
if SHELL=$(command -v bash); then export SHELL; exec "$SHELL"; fi
SHELL=$(command -v sh); export SHELL
exec sh`

// Shell runs an interactive shell in a sandbox.
func Shell(a *cli.App, fs *flag.FlagSet) func() error {
	e := Execution{App: a}
	e.register(fs)
	return func() error {
		switch {
		case fs.NArg() > 0:
			return cli.Usage(fs, errors.New("it takes no command: use sbxhost exec for one"))
		case e.flags.Scripted:
			return cli.Usage(fs, errors.New("it takes no script: use sbxhost exec -c for one"))
		case !cli.IsTerminal(a.Stdin) || !cli.IsTerminal(a.Stdout):
			return cli.Hint(errors.New("shell: standard input and output must be a terminal"),
				"run a command without one by sbxhost exec")
		}
		e.Take(fs, true)
		return e.runAnywhere(fs)
	}
}
