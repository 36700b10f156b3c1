//go:build linux && !amd64 && !arm64

package trace

// refuseCall does nothing: only amd64 and arm64 have such programs.
func refuseCall(int) {}
