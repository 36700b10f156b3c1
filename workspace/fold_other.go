//go:build !darwin

package workspace

// foldName is the identity: names that differ in case are different files.
func foldName(name string) string { return name }
