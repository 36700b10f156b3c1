// Package cli has what each command of sbxhost is made of: the streams it speaks by and the
// environment it is told, its flags, how its results and its errors are shown, and the status
// it exits with. It knows no command.
package cli

import (
	"io"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/inforce"
	"github.com/sbxhost/sbxhost/shared"
)

// App is what every subcommand has: the streams it speaks by and the world it
// sees.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        []string
	Dir            string   // current directory; empty where it was removed
	CommandLine    []string // of the command line, flags too
	ForeignConfigs []string // other tools' configurations, which were passed by

	Builtins host.Builtins
	Inject   map[string]shared.Engine // ahead of all other engines
}

// Getenv is os.Getenv over a.environ.
func (a *App) Getenv(name string) string {
	value, _ := a.LookupEnv(name)
	return value
}

func (a *App) LookupEnv(name string) (value string, found bool) {
	return (&inforce.Caller{Environ: a.Environ}).LookupEnv(name)
}

// Absolute resolves a path a person gave.
func (a *App) Absolute(path string) string {
	return (&inforce.Caller{Dir: a.Dir}).Absolute(path)
}
