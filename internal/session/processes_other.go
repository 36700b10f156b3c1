//go:build unix && !linux

package session

// Processes lists none: no engine of these systems keeps any.
func Processes(int) ([]Process, error) { return nil, nil }
