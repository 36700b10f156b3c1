// Sbx runs a command in a sandbox as `sbxhost exec` does, by a host that `sbxhost serve`
// keeps. It takes the flags of exec:
//
//	sbx -sandbox fast -- npm test
//
// It starts a missing server. If the server cannot run the command, sbx becomes the `sbxhost exec` that
// is installed beside it. -v before all other flags prints why.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"syscall"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/serve"
)

// The status of sbxhost after its own failure; see the help of exec.
const statusFailed = 125

func main() {
	// With more processors, the runtime's monitor at first wakes up every 20 microseconds during
	// the wait for the server, and takes that time from the command.
	runtime.GOMAXPROCS(1)
	args := os.Args[1:]
	verbose := len(args) > 0 && args[0] == "-v"
	if verbose {
		args = args[1:]
	}
	program, err := sbxhost()
	if err == nil {
		status, ended, failed := ask(program, args)
		switch {
		case failed == nil:
			if verbose {
				complain(errors.New("the server ran it"))
			}
			serve.EndBy(ended, status)
			os.Exit(status)
		case failed == serve.ErrGone, failed == errVariable:
			err = failed
		case os.Getenv(variable) == "on" && !errors.Is(failed, serve.ErrDeclined):
			err = fmt.Errorf("%s is on, and no server runs the command: %w", variable, failed)
		default:
			if verbose {
				complain(fmt.Errorf("it runs alone: %w", failed))
			}
			args = append([]string{"sbxhost", "exec"}, args...)
			err = &os.PathError{Op: "exec", Path: program.Path(), Err: syscall.Exec(program.Path(), args, os.Environ())}
		}
	}
	complain(err)
	os.Exit(statusFailed)
}

// variable is "off" for no server, and "on" to refuse a command without a server that could run it.
const variable = "SBX_SERVE"

var errVariable = errors.New(variable + " is neither on nor off")

// ask makes a server run the command. It starts a server if there is none.
func ask(program *hostpath.Program, args []string) (status int, ended syscall.Signal, err error) {
	switch value := os.Getenv(variable); {
	case value == "off":
		return 0, 0, fmt.Errorf("%w: %s is off", serve.ErrDeclined, variable)
	case value != "" && value != "on":
		return 0, 0, errVariable
	case serve.IsTerminal(0): // only the terminal's own processes can pass it on
		return 0, 0, fmt.Errorf("%w: standard input is a terminal", serve.ErrDeclined)
	}
	client := &serve.Client{Hello: serve.Hello{Args: args}}
	return client.AskUser(os.Getenv("XDG_RUNTIME_DIR"), program)
}

func complain(err error) { os.Stderr.WriteString("sbx: " + err.Error() + "\n") }

// sbxhost returns the program that this one stands for. It does not search PATH: only a
// configuration, which sbxhost reads, says which of its directories commands can write to.
func sbxhost() (*hostpath.Program, error) {
	program, err := hostpath.Beside("sbxhost")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("there is no sbxhost beside it: install both in one directory")
	}
	return program, err
}
