//go:build !linux

package containerinit

import (
	"errors"

	"github.com/sbxhost/sbxhost/shared/procself"
)

// Main is of use where there are namespaces.
func Main([]string, string, func(int) int) int {
	return procself.Complain("starting in a container", errors.ErrUnsupported)
}
