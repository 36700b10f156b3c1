package cli

import "github.com/sbxhost/sbxhost/host"

// StatusFailed is the exit status if nothing ran, or the sandbox broke.
const StatusFailed = 125

// ExitStatus returns the exit status for the result of a command.
func ExitStatus(err error) int { return host.Refused("", err).Status }
