// Sbx runs a command in a sandbox as `sbxhost exec` does, by a host that `sbxhost serve`
// keeps. It takes the flags of exec:
//
//	sbx -sandbox fast -- npm test
//
// Where there is no server, or it cannot do what is asked in this process's place, sbx
// becomes `sbxhost exec`, that which was installed beside it.
package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/serve"
)

// The status of sbxhost where it has failed itself, see the help of exec.
const statusFailed = 125

func main() {
	// With more, the runtime's monitor wakes up every 20 microseconds at first to see whether the wait
	// for the server is over: time that the command lacks.
	runtime.GOMAXPROCS(1)
	program, err := sbxhost()
	if err == nil {
		switch status, err := ask(program); {
		case err == nil:
			os.Exit(status)
		case err == serve.ErrGone:
			complain(errors.New("sbxhost serve has ended, and the command with it"))
			os.Exit(statusFailed)
		}
		args := append([]string{"sbxhost", "exec"}, os.Args[1:]...)
		err = &os.PathError{Op: "exec", Path: program, Err: syscall.Exec(program, args, os.Environ())}
	}
	complain(err)
	os.Exit(statusFailed)
}

// ask has a server run the command that program would run.
func ask(program string) (status int, err error) {
	if serve.IsTerminal(0) {
		return 0, serve.ErrLeft // which only its own processes can pass on
	}
	dir, err := serve.Dir(os.Getenv("XDG_RUNTIME_DIR"))
	if err != nil {
		return 0, err
	}
	status, _, err = (&serve.Client{Hello: serve.Hello{Args: os.Args[1:]}}).Ask(filepath.Join(dir, serve.Socket), program)
	return status, err
}

func complain(err error) { os.Stderr.WriteString("sbx: " + err.Error() + "\n") }

// sbxhost finds the program that this one stands for. PATH is not asked: which of its
// directories commands can write to is said by a configuration that only sbxhost reads.
func sbxhost() (string, error) {
	program, err := hostpath.Beside("sbxhost")
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("there is no sbxhost beside it: install both in one directory")
	} else if err != nil {
		return "", err
	}
	return program.Path(), nil
}
