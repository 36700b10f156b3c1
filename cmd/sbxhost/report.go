package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"golang.org/x/term"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/inforce"
	"github.com/sbxhost/sbxhost/shared"
)

// hinted is an error with a line on what to do about it.
type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }

// hintOf is the line of such an error, or of one of a configuration's.
func hintOf(err error) string {
	if e, ok := errors.AsType[*hinted](err); ok {
		return e.hint
	}
	if e, ok := errors.AsType[*inforce.Hinted](err); ok {
		return e.Hint
	}
	return ""
}

// exited ends a command whose user has been told all there is to tell.
type exited struct {
	status  int
	message string // what was told
}

func (e *exited) Error() string { return e.message }

// exit ends a command with a status and says no more.
func exit(status int) error {
	if status == 0 {
		return nil
	}
	return &exited{status, fmt.Sprintf("exit status %d", status)}
}

// fail tells an error on standard error and gives the status to exit with.
func (a *app) fail(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*exited](err); ok {
		return e.status
	}
	message, hint := err.Error(), ""
	if e, ok := errors.AsType[*shared.Error](err); ok && e.Hint != "" {
		if cut, ok := strings.CutSuffix(message, "; "+e.Hint); ok {
			message, hint = cut, e.Hint
		}
	}
	a.say(message)
	a.sayHint(hint)
	a.sayHint(hintOf(err))
	return exitStatus(err)
}

func (a *app) sayHint(hint string) {
	if hint != "" {
		fmt.Fprintf(a.stderr, "  hint: %s\n", oneLine(hint))
	}
}

// say writes a line of sbxhost's own. What a message has further lines of is indented:
// the name of a file, or an engine's log, can be written to look like one of ours.
func (a *app) say(message string) {
	name := "sbxhost:"
	if a.color(a.stderr) {
		name = "\x1b[1msbxhost:\x1b[0m"
	}
	fmt.Fprintf(a.stderr, "%s %s\n", name, strings.ReplaceAll(printable(message), "\n", "\n  "))
}

// print writes text to standard output.
func (a *app) print(text string) error {
	if _, err := io.WriteString(a.stdout, text); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}

// result writes what a command has found out to standard output: v as JSON, or
// the text.
func (a *app) result(asJSON bool, v any, text string) error {
	if !asJSON {
		return a.print(text)
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	return a.print(b.String())
}

// diagnose shows diagnostics with their lines in the file.
func (a *app) diagnose(diags config.Diagnostics) {
	config.Write(a.stderr, diags, a.color(a.stderr), columns(a.stderr))
}

// color reports whether w is a terminal whose user has not said no.
func (a *app) color(w io.Writer) bool {
	return a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb" && isTerminal(w)
}

func isTerminal(stream any) bool {
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// columns is the width of a terminal, or zero.
func columns(w io.Writer) int {
	if !isTerminal(w) {
		return 0
	}
	width, _, err := term.GetSize(int(w.(interface{ Fd() uintptr }).Fd()))
	if err != nil {
		return 0
	}
	return width
}

// printable keeps text that an engine or a file name has chosen from acting on
// the terminal, and from hiding a part of itself. Lines stay lines.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !hostpath.Visible(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// plural is "1 error", "2 errors".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
