//go:build !linux && !darwin

package actor

func platformActions() map[string]action { return nil }
