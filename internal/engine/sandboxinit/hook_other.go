//go:build !unix

package sandboxinit

// Hook returns: there is no init, since no engine isolates here.
func Hook() {}
