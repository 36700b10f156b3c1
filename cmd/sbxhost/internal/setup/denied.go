package setup

import (
	"fmt"
	"strings"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/policy"
)

// deniedHint says what allows a command that may not run without a sandbox.
func deniedHint(e *host.DeniedError) error {
	var failure error = plainError{e}
	if e.Decision.Rule == policy.RuleBypassNotAllowed {
		failure = fmt.Errorf("-no-sandbox: %s", e.Decision.Reason)
	}
	var hints []string
	if e.Decision.Hint != "" {
		hints = append(hints, e.Decision.Hint)
	}
	if e.Decision.Ask && e.Request != nil {
		hints = append(hints, "to approve it ahead of its run: sbxhost approvals add, here, with the flags and the command line just as they are")
	}
	if hints == nil {
		return failure
	}
	return cli.Hint(failure, strings.Join(hints, "; "))
}

// plainError hides the wrapped error from Fail, which would print its hint instead of sbxhost's. It
// keeps the status.
type plainError struct{ error }
