//go:build linux && !amd64 && !arm64

package trace

// refuseCall is for programs that only amd64 and arm64 have.
func refuseCall(int) {}
