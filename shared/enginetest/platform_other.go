//go:build !linux

package enginetest

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

var errOnlyLinux = &absentError{"only on Linux"}

func outsideAttr(bool) *syscall.SysProcAttr { return nil }

func inheritDirectory(*scene) error { return errOnlyLinux }
func takeHandle(*scene) error       { return errOnlyLinux }
func makeSharedMemory(*scene) error { return errOnlyLinux }
func makeMessageQueue(*scene) error { return errOnlyLinux }
func needScoping() error            { return errOnlyLinux }
func makeFifo(path string) error    { return syscall.Mkfifo(path, 0o600) }

// exchange cannot be done in one step here.
func exchange(a, b string) error {
	return errors.Join(os.Rename(a, a+"-x"), os.Rename(b, a), os.Rename(a+"-x", b))
}

func dieBy(sig syscall.Signal) error {
	err := syscall.Kill(os.Getpid(), sig)
	time.Sleep(time.Second) // it may be another thread that gets it
	return fmt.Errorf("it lives on: %w", err)
}
