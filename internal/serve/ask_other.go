//go:build !linux

package serve

import (
	"os"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// Ask has nobody to ask: only Linux says who has connected to a socket.
func (*Client) Ask(string, string) (int, syscall.Signal, error) { return 0, 0, ErrAbsent }

// Dir has no socket.
func Dir(string) (string, error) { return "", ErrAbsent }

// AskUser has nobody to ask either.
func (*Client) AskUser(string, *hostpath.Program) (int, syscall.Signal, error) {
	return 0, 0, ErrAbsent
}

// StartUser has nobody to start.
func StartUser(*hostpath.Program, string) error { return ErrAbsent }

// Start has nobody to start either.
func Start(*hostpath.Program, []string, ...string) error { return ErrAbsent }

// A Holder is nobody here: no engine of these systems keeps processes.
type Holder struct {
	PID    int
	Socket string
}

// HolderOf finds none.
func HolderOf(string) (*Holder, error) { return nil, ErrAbsent }

// Remove removes a directory that nobody can hold.
func Remove(dir string) error { return os.RemoveAll(dir) }

func (*Holder) Session(time.Duration) (string, error) { return "", ErrAbsent }
func (*Holder) EndSession() error                     { return ErrAbsent }
func (*Holder) Close()                                {}

// IsTerminal is for who asks.
func IsTerminal(int) bool { return false }
