//go:build !linux

package driver

import (
	"fmt"
	"os"
)

// Main says that there is no driver for this system.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, "nomad-driver-sbxhost: only on Linux")
	return 1
}
