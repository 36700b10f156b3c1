package main

import (
	"errors"

	"github.com/posener/complete"
)

// shellCommand runs an interactive shell in a sandbox.
type shellCommand struct{ *app }

func (*shellCommand) Synopsis() string   { return "Start an interactive shell in a sandbox" }
func (*shellCommand) takesCommand() bool { return false }

func (*shellCommand) Help() string {
	return `Usage: sbxhost shell [FLAGS]

Start an interactive login shell in a fresh sandbox, with a terminal of its own:
your $SHELL if that is there inside, else bash, else sh. What it leaves running
ends with it.

The flags are those of exec, except for -c and -t: -sandbox, -config, -network,
-read-only, -timeout, -env, -workdir, -session, -no-sandbox, -result and -quiet.
"sbxhost exec -help" describes them.

Keys and the size of the window reach the shell and what it starts, ^C and ^Z
too. To suspend sbxhost itself, send it SIGTSTP from elsewhere. If sbxhost is
killed by SIGKILL it cannot restore your terminal: type "stty sane", and ^J
rather than Enter, or "reset" where your shell does not do so by itself.

Exit status: the shell's, and as of exec.

Examples:
  sbxhost shell
  sbxhost shell -sandbox online
  sbxhost shell -read-only -network=false -workdir ./third-party`
}

// loginShell becomes the shell: which one is there is known inside alone. An
// account that nobody may log in to can still use a sandbox.
const loginShell = `case ${SHELL##*/} in nologin|false|true) ;; *)
	case $SHELL in /*) if test -f "$SHELL" && test -x "$SHELL"; then exec "$SHELL" -l; fi ;; esac ;;
esac
if SHELL=$(command -v bash); then export SHELL; exec "$SHELL" -l; fi
SHELL=$(command -v sh); export SHELL
if sh -l -c : 2>/dev/null; then exec sh -l; fi
exec sh`

// Run implements subcommand.
func (c *shellCommand) Run(args []string) int {
	e := execution{app: c.app}
	fs := newFlags("shell")
	e.register(fs)
	if status, ok := c.parse(fs, c, args); !ok {
		return status
	}
	switch {
	case fs.NArg() > 0:
		return c.usage(fs, errors.New("it takes no command: use sbxhost exec for one"))
	case e.flags.scripted:
		return c.usage(fs, errors.New("it takes no script: use sbxhost exec -c for one"))
	case !isTerminal(c.stdin) || !isTerminal(c.stdout):
		return c.fail(&hinted{errors.New("shell: standard input and output must be a terminal"),
			"run a command without one by sbxhost exec"})
	}
	e.flags.tty = true
	e.args = []string{"sh", "-c", loginShell, "sh"}
	return e.runAndTell()
}

func (*shellCommand) AutocompleteArgs() complete.Predictor { return complete.PredictNothing }

func (c *shellCommand) AutocompleteFlags() complete.Flags {
	flags := c.completeRun()
	delete(flags, "-c")
	delete(flags, "-t")
	flags["-result"] = complete.PredictFiles("*")
	flags["-quiet"] = complete.PredictNothing
	flags["-session"] = complete.PredictAnything
	flags["-no-sandbox"] = complete.PredictNothing
	return flags
}
