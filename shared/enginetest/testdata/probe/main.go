// Probe is what the kit runs inside where the testing program cannot be run: it
// is built with CGO_ENABLED=0, so that an image needs no libraries for it.
package main

import (
	"fmt"
	"os"

	"github.com/sbxhost/sbxhost/shared/enginetest"
)

func main() {
	enginetest.Hook()
	fmt.Fprintln(os.Stderr, "this program is for the tests of package enginetest")
	os.Exit(2)
}
