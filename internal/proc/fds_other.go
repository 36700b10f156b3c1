//go:build !linux

package proc

import (
	"errors"
	"os"
	"runtime"
)

// CloseOnExecFrom marks every descriptor from first on as close-on-exec, so that programs of this
// process do not inherit the descriptors that this process inherited. It does not affect Go's
// ExtraFiles.
func CloseOnExecFrom(first int) error { return closeOnExecFrom("/dev/fd", first) }

// Await does nothing, and leaves the wait to the caller's reap: macOS's waitid also returns for a
// process that has only stopped.
func Await(int) {}

// NewMemory fails: only Linux has such files.
func NewMemory(string, int64) (*os.File, error) { return nil, errors.ErrUnsupported }

// OnOwnThread runs fn on a thread that ends with it.
func OnOwnThread(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked
		fn()
	}()
	<-done
}

// Exit ends the process.
func Exit(code int) { os.Exit(code) }
