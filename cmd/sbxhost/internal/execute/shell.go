package execute

import (
	"errors"
	"flag"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
)

// userShell becomes the shell: which one is there is known inside alone. An account that
// nobody may log in to can still use a sandbox. A login shell would read a profile, which on
// many a system begins with a PATH of its own.
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
