//go:build !darwin

package seatbelt

// canonical leaves a path as it is: there is no seatbelt here to spell it for,
// and a plan shows what it was given.
func canonical(path string) (string, error) { return path, nil }
