//go:build !unix

package shared

import (
	"fmt"
	"os"
)

// Serve ends the process: no socket passes a command's files to it here.
func Serve(Engine) {
	fmt.Fprintln(os.Stderr, "no engine works on this system")
	os.Exit(1)
}
