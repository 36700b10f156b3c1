//go:build !linux && !darwin

package enginetest

func platformActions() map[string]action { return nil }

func openTerminal() (*terminal, error) { return nil, errOnlyLinux }
