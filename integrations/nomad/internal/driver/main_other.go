//go:build !linux

package driver

import (
	"fmt"
	"os"
)

// Main says that this system has no driver.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, "nomad-driver-sbxhost: only on Linux")
	return 1
}
