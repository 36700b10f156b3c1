//go:build unix && !linux

package sessiondir

// lockHolders returns nil: these systems do not list the users of a file.
func lockHolders(string) []int { return nil }
