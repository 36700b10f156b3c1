//go:build !linux && !darwin

package enginetest

func openTerminal() (*terminal, error) { return nil, errOnlyLinux }
