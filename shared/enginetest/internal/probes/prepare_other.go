//go:build !linux

package probes

import (
	"errors"
	"os"
)

// The preparations of probes that are for Linux alone.
var inheritDirectory, takeHandle, makeSharedMemory, makeMessageQueue preparation

func scopesSockets() bool { return false }

// exchange cannot be done in one step here.
func exchange(a, b string) error {
	return errors.Join(os.Rename(a, a+"-x"), os.Rename(b, a), os.Rename(a+"-x", b))
}
