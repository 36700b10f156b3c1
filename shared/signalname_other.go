//go:build !unix

package shared

// SignalName is for people: signals have no other names here.
func SignalName(sig Signal) string { return sig.String() }
