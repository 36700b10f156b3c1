//go:build !darwin

package seatbelt

// canonical does not change a path: without a seatbelt, a plan shows its input.
func canonical(path string) (string, error) { return path, nil }
