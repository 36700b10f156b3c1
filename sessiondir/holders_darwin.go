package sessiondir

// lockHolders: macOS has no list of locks.
func lockHolders(string, uint64) []int { return nil }
