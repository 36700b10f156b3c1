//go:build !linux

package holder

// Main says that there is no holder where there are no namespaces.
func Main([]string) int { return 125 }
