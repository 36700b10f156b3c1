// Package cli has the common parts of sbxhost's commands: their streams and environment, their
// flags, the output of results and errors, and the exit status. It knows no command.
package cli

import (
	"io"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/inforce"
	"github.com/sbxhost/sbxhost/shared"
)

// App is the common state of every subcommand.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        []string
	Dir            string   // current directory; empty if it was removed
	CommandLine    []string // the command line, with flags
	ForeignConfigs []string // other tools' configurations, which sbxhost does not read

	Builtins host.Builtins
	Inject   map[string]shared.Engine // engines that take precedence over all others
}

// Getenv is os.Getenv for a.environ.
func (a *App) Getenv(name string) string {
	value, _ := a.LookupEnv(name)
	return value
}

func (a *App) LookupEnv(name string) (value string, found bool) {
	return (&inforce.Caller{Environ: a.Environ}).LookupEnv(name)
}

// Absolute resolves a path from the user.
func (a *App) Absolute(path string) string {
	return (&inforce.Caller{Dir: a.Dir}).Absolute(path)
}
