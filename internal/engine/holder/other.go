//go:build !linux

package holder

// Main fails: there are no namespaces on this system.
func Main([]string) int { return 125 }
