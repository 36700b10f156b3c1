// Package cli has the common parts of sbxhost's commands: their streams and environment, their
// flags, the output of results and errors, and the exit status. It knows no command.
package cli

import (
	"io"
	"syscall"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
)

// App is the common state of every subcommand.
type App struct {
	inforce.Caller
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	CommandLine    []string       // the command line, with flags
	Ended          syscall.Signal // the signal that ended the command
}
