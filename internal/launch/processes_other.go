//go:build !unix

package launch

// An engine's process gets a command's files over a unix socket.
type processes struct{}
