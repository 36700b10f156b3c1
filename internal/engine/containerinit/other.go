//go:build !linux

package containerinit

import (
	"errors"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// Main is of use where there are namespaces.
func Main([]string, string, func(int) int) int {
	return proc.Complain("starting in a container", errors.ErrUnsupported)
}
