//go:build !linux

package serve

import "syscall"

// Ask has nobody to ask: only Linux says who has connected to a socket.
func (*Client) Ask(string, string) (int, syscall.Signal, error) { return 0, 0, ErrAbsent }

// IsTerminal is for who asks.
func IsTerminal(int) bool { return false }
