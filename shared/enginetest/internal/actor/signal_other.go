//go:build !linux

package actor

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

func dieBy(sig syscall.Signal) error {
	err := syscall.Kill(os.Getpid(), sig)
	time.Sleep(time.Second) // it may be another thread that gets it
	return fmt.Errorf("it lives on: %w", err)
}
