//go:build !linux

package sandboxinit

func probe(string) string { return needsLinux }
func removeLean()         {}
