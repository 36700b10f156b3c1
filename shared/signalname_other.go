//go:build !unix

package shared

import "syscall"

// SignalName returns a name for people; signals have no standard names here.
func SignalName(sig syscall.Signal) string { return sig.String() }
