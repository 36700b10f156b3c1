//go:build !unix

package sandboxinit

// Hook returns: no engine isolates here, so there is no init.
func Hook() {}
