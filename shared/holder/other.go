//go:build !linux

package holder

// Main says that there is no holder where there are no namespaces.
func Main([]string, func()) int { return 125 }
