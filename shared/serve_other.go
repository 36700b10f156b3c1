//go:build !unix

package shared

import (
	"fmt"
	"os"
)

// Serve ends the process: on this system no socket can pass a command's files to it.
func Serve(Engine) {
	fmt.Fprintln(os.Stderr, "no engine works on this system")
	os.Exit(1)
}
