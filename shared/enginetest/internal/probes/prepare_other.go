//go:build !linux

package probes

import (
	"errors"
	"os"

	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

var errOnlyLinux = scene.AbsentError("only on Linux")

func inheritDirectory(*scene.Scene) error { return errOnlyLinux }
func takeHandle(*scene.Scene) error       { return errOnlyLinux }
func makeSharedMemory(*scene.Scene) error { return errOnlyLinux }
func makeMessageQueue(*scene.Scene) error { return errOnlyLinux }
func needScoping(*scene.Scene) error      { return errOnlyLinux }

// exchange cannot be done in one step here.
func exchange(a, b string) error {
	return errors.Join(os.Rename(a, a+"-x"), os.Rename(b, a), os.Rename(a+"-x", b))
}
