//go:build !linux

package containerinit

import (
	"errors"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// Main fails: there are no namespaces on this system.
func Main([]string, func(int) int) int {
	return proc.Complain("starting in a container", errors.ErrUnsupported)
}
