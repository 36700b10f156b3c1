//go:build !unix

package launch

// slot is empty: an engine's process gets a command's files over a unix socket, which this system
// lacks.
type slot struct{}
