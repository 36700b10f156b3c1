//go:build unix

package main

import (
	"errors"
	"flag"
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

// shell runs an interactive shell in a sandbox.
func (a *app) shell(fs *flag.FlagSet) func() error {
	e := execution{app: a}
	e.register(fs)
	return func() error {
		switch {
		case fs.NArg() > 0:
			return usage(fs, errors.New("it takes no command: use sbxhost exec for one"))
		case e.flags.scripted:
			return usage(fs, errors.New("it takes no script: use sbxhost exec -c for one"))
		case !isTerminal(a.stdin) || !isTerminal(a.stdout):
			return &hinted{errors.New("shell: standard input and output must be a terminal"),
				"run a command without one by sbxhost exec"}
		}
		e.flags.tty = true
		e.args = []string{"sh", "-c", userShell, "sh"}
		e.summary = true
		status := e.runAndTell()
		for _, line := range networkSummary(e.report.Network) {
			e.say(line)
		}
		return exit(status)
	}
}
