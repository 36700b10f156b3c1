package setup

import (
	"cmp"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/policy"
)

// deniedHint says what allows a command that may not run without a sandbox.
func deniedHint(a *cli.App, e *host.DeniedError, flags *Flags) error {
	var failure error = plainError{e}
	if e.Decision.Rule == policy.RuleBypassNotAllowed {
		failure = errors.New(e.Decision.Reason)
	}
	hint := e.Decision.Hint
	if e.Decision.Ask && e.Request != nil {
		add := approveAhead(a, e.Request, flags)
		if hint != "" {
			add = hint + "; " + add
		}
		hint = add
	}
	if hint == "" {
		return failure
	}
	return cli.Hint(failure, hint)
}

// plainError hides the wrapped error from Fail, which would print its hint instead of sbxhost's. It
// keeps the status.
type plainError struct{ error }

// maxHint is how long a command line may be to be pasted.
const maxHint = 4000

// approveAhead says how to approve the denied command. The user pastes it into a shell, perhaps of
// another login session: a program without a terminal is often in another session than its user, so
// the scope session would not work.
func approveAhead(a *cli.App, r *host.ApprovalRequest, flags *Flags) string {
	args := []string{"-scope", "once"}
	what := "to approve it first"
	if config := cmp.Or(flags.Config, a.Getenv("SBXHOST_CONFIG")); config != "" {
		args = append(args, "-config", config)
	}
	if session := cmp.Or(flags.Session, a.Getenv("SBXHOST_SESSION")); session != "" {
		args = append(args, "-session", session)
	}
	if flags.Workdir != "" {
		args = append(args, "-C", flags.Workdir)
	}
	if flags.NoSandbox {
		args = append(args, "-no-sandbox")
	}
	args = append(args, "-sandbox", r.Sandbox)
	for _, entry := range flags.env {
		if name, _, given := strings.Cut(entry, "="); given {
			entry = name + "=..." // the value may be a secret
			what = "to approve it first, with the values in place of the dots"
		}
		args = append(args, "-env", entry)
	}
	switch {
	case flags.ScriptFile != "":
		args = append(args, "-c", "@"+flags.ScriptFile)
	case r.Script != "":
		args = append(args, "-c", r.Script)
	}
	text := cli.ShellQuote(append(append(args, "--"), r.Args...)...)
	if utf8.RuneCountInString(text) > maxHint {
		return what + ": sbxhost approvals add, with the flags and the command line just as they are"
	}
	return what + ": cd " + cli.ShellQuote(a.Dir) + " && sbxhost approvals add " + text
}
