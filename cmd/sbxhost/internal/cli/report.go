package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/source"
	"github.com/sbxhost/sbxhost/shared"
)

// Hint adds a line to an error that says what to do.
func Hint(err error, hint string) error { return &inforce.HintedError{Err: err, Hint: hint} }

func HintOf(err error) string {
	if e, ok := errors.AsType[*inforce.HintedError](err); ok {
		return e.Hint
	}
	return ""
}

// exitStatus ends a command whose message was already printed.
type exitStatus struct {
	status  int
	message string // the printed message
}

func (e *exitStatus) Error() string { return e.message }

// Exit ends a command with a status and without a message.
func Exit(status int) error {
	if status == 0 {
		return nil
	}
	return &exitStatus{status, fmt.Sprintf("exit status %d", status)}
}

// Fail prints an error to standard error and returns the exit status.
func (a *App) Fail(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*exitStatus](err); ok {
		return e.status
	}
	message, hint := err.Error(), ""
	if e, ok := errors.AsType[*shared.Error](err); ok && e.Hint != "" {
		if cut, ok := strings.CutSuffix(message, "; "+e.Hint); ok {
			message, hint = cut, e.Hint
		}
	}
	a.Say(message)
	a.SayHint(hint)
	a.SayHint(HintOf(err))
	return ExitStatus(err)
}

func (a *App) SayHint(hint string) {
	if hint != "" {
		fmt.Fprintf(a.Stderr, "  hint: %s\n", OneLine(hint))
	}
}

// Say prints a line of sbxhost. It indents further lines of the message: a file name or an engine's
// log could otherwise imitate a line of sbxhost.
func (a *App) Say(message string) {
	name := "sbxhost:"
	if a.Color(a.Stderr) {
		name = "\x1b[1msbxhost:\x1b[0m"
	}
	fmt.Fprintf(a.Stderr, "%s %s\n", name, strings.ReplaceAll(Printable(message), "\n", "\n  "))
}

func (a *App) Print(text string) error {
	if _, err := io.WriteString(a.Stdout, text); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}

// Result prints a command's result to standard output: v as JSON, or the text.
func (a *App) Result(asJSON bool, v any, text string) error {
	if !asJSON {
		return a.Print(text)
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	// A command can choose names with characters that a terminal acts on or that nobody sees.
	shown := func(r rune) bool { return r == '\n' || hostpath.Visible(r) }
	return a.Print(hostpath.EscapeJSON(b.String(), shown))
}

// Diagnose prints diagnostics with their lines in the file.
func (a *App) Diagnose(diags config.Diagnostics) {
	columns, _ := Size(a.Stderr)
	source.Write(a.Stderr, diags, a.Color(a.Stderr), columns)
}

// Color reports whether w is a terminal and the user has not disabled colors.
func (a *App) Color(w io.Writer) bool {
	return a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb" && IsTerminal(w)
}

// PrintLast prints the last message of a command.
func (a *App) PrintLast(message string, status int) error {
	a.Say(message)
	return &exitStatus{status, message}
}

func OnlyErrors(diags config.Diagnostics) config.Diagnostics {
	var errs config.Diagnostics
	for i := range diags {
		if one := diags[i : i+1]; one.HasErrors() {
			errs = append(errs, one...)
		}
	}
	return errs
}
