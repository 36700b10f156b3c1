//go:build !unix

package shared

// SignalName returns a name for people; signals have no standard names here.
func SignalName(sig Signal) string { return sig.String() }
