//go:build linux && !amd64

package actor

// archCalls has nothing to add: this architecture has one entry of its own.
func archCalls(map[string]systemCall) {}
