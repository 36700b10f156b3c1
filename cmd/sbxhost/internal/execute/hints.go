package execute

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/audit"
	"github.com/sbxhost/sbxhost/internal/egress"
	"github.com/sbxhost/sbxhost/shared"
)

// maxHints bounds the lines on what a sandbox kept from a command, maxTraceHints those of one
// whose trace was asked for.
const (
	maxHints      = 2
	maxTraceHints = 10
)

// tellDenials tells what the sandbox kept from the command, what is certain first.
func (e *Execution) tellDenials() {
	if e.quiet || e.shell {
		return
	}
	quietly := e.succeeded() && !e.trace && cli.IsTerminal(e.Stderr) // who looks at it saw that it went well
	denials := slices.DeleteFunc(slices.Clone(e.report.Denials), func(d host.Denial) bool {
		return d.Attribute == "limits.timeout" || quietly && d.Attribute == "network"
	})
	shown := maxHints
	if e.trace {
		shown = maxTraceHints
	}
	for i := range denials[:min(len(denials), shown)] {
		e.Say("hint: " + e.denialLine(&denials[i]))
	}
	if more := len(denials) - shown; more > 0 {
		e.Say(fmt.Sprintf("hint: and %d more, which -result lists", more))
	}
	if e.suggest {
		e.Say(suggestion(e.sandboxName(), denials))
	}
}

// suggestion is the smallest change of a definition that lets what was denied, in HCL. Lists
// have what is to be added to them.
func suggestion(sandbox string, denials []host.Denial) string {
	var names []string
	values := map[string][]string{}
	list := map[string]bool{}
	for i := range denials {
		d := &denials[i]
		if d.Value == "" || strings.ContainsAny(d.Attribute, "[") {
			continue // nothing is proposed, or a change within an element, which its own line tells
		}
		switch {
		case values[d.Attribute] == nil:
			names = append(names, d.Attribute)
		case list[d.Attribute] && !d.Element:
			continue // a name is less than the whole network
		case !list[d.Attribute] && d.Element:
			values[d.Attribute] = nil
		}
		if list[d.Attribute] = d.Element; !slices.Contains(values[d.Attribute], d.Value) {
			values[d.Attribute] = append(values[d.Attribute], d.Value)
		}
	}
	if len(names) == 0 {
		return "suggestion: there is nothing to change in sandbox " + strconv.Quote(sandbox)
	}
	slices.SortStableFunc(names, func(a, b string) int { return strings.Compare(blockOf(a), blockOf(b)) })
	var b strings.Builder
	fmt.Fprintf(&b, "suggestion; what a list has already stays in it:\nsandbox %q {\n", sandbox)
	for i, name := range names {
		block, indent := blockOf(name), "  "
		if block != "" {
			if indent = "    "; i == 0 || blockOf(names[i-1]) != block {
				fmt.Fprintf(&b, "  %s {\n", block)
			}
		}
		value := values[name][0]
		if list[name] {
			value = "[" + strings.Join(outermost(values[name]), ", ") + "]"
		}
		fmt.Fprintf(&b, "%s%s = %s\n", indent, strings.TrimPrefix(name, block+"."), value)
		if block != "" && (i == len(names)-1 || blockOf(names[i+1]) != block) {
			b.WriteString("  }\n")
		}
	}
	return b.String() + "}"
}

// blockOf is the block of an attribute such as limits.pids; empty for one of the sandbox itself.
func blockOf(attribute string) string {
	block, _, ok := strings.Cut(attribute, ".")
	if !ok {
		return ""
	}
	return block
}

// outermost leaves out quoted paths that lie in another one.
func outermost(values []string) []string {
	return slices.DeleteFunc(slices.Clone(values), func(v string) bool {
		return slices.ContainsFunc(values, func(around string) bool {
			return strings.HasPrefix(around, `"/`) && strings.HasPrefix(v, strings.TrimSuffix(around, `"`)+"/")
		})
	})
}

// succeeded reports whether the command exited with 0.
func (e *Execution) succeeded() bool { return e.report.ExitCode != nil && *e.report.ExitCode == 0 }

// placeDenial says where that stands which holds a denial, and the change in the caller's form.
func (e *Execution) placeDenial(d *host.Denial) {
	flag := e.flags.FlagOf(d.Attribute)
	if d.At = cmp.Or(flag, e.place(d.Attribute)); flag != "" {
		d.Change = e.flags.Change(d)
	}
	if d.Attribute == "limits.timeout" && e.setup != nil {
		d.Reason = e.timedOut()
	}
}

// denialLine says what was denied, what would allow it, and where that is written.
func (e *Execution) denialLine(d *host.Denial) string {
	e.placeDenial(d)
	at, change := "at "+d.At, d.Change
	switch {
	case d.Attribute == "", change == "" && d.At == "":
		return d.Reason
	case change == "":
		return d.Reason + "; see " + d.Attribute + " " + at
	case strings.HasPrefix(d.At, "-"):
		at = "instead"
	case d.At == "":
		at = "in a configuration, which sbxhost init writes"
	}
	if strings.HasPrefix(change, "network = ") {
		change = e.flags.Change(d) + ", or " + change
	}
	return fmt.Sprintf("%s; to allow it: %s %s", d.Reason, change, at)
}

// hint gives err with what helps where the command was not found, and says which time limit
// has ended it, which nothing else would say.
func (e *Execution) hint(cmd *host.Cmd, err error) error {
	exit, exited := errors.AsType[*host.ExitError](err)
	if timedOut := exited && exit.TimedOut || errors.Is(err, host.ErrTimedOut); timedOut && e.setup != nil && !e.quiet {
		e.Say(e.timedOut())
	}
	if cmd == nil || !errors.Is(err, shared.ErrNotFound) {
		e.tellDenials()
		return err
	}
	switch {
	case len(e.report.Denials) > 0:
		return cli.Hint(err, e.denialLine(&e.report.Denials[0]))
	case !e.flags.Scripted && len(e.args) == 1 && strings.ContainsAny(e.args[0], " \t\n;|&<>$"):
		return cli.Hint(err, "if that is shell text, write -c before it: sbxhost exec -c "+cli.ShellQuote(e.args[0]))
	}
	return err
}

// maxSummary bounds a summary's lines.
const maxSummary = 20

// networkSummary has a line for each name with each outcome.
func networkSummary(uses []audit.NetworkUse) (lines []string) {
	for _, u := range uses {
		d := egress.Decision{Name: cmp.Or(u.Name, "others"), Port: u.Port, By: u.By, Allowed: u.Allowed, Reason: u.Reason}
		if !u.Allowed {
			d.Reason = cmp.Or(u.Reason, "for various reasons")
		}
		line := d.String()
		if d.Reason == "" {
			line = fmt.Sprintf("network: %s%s: %d connections, %d bytes sent, %d received", d.Target(), d.Whose(), u.Connections, u.Sent, u.Received)
		}
		lines = append(lines, line)
	}
	if more := len(lines) - maxSummary; more > 0 {
		lines = append(lines[:maxSummary], fmt.Sprintf("network: and %d more", more))
	}
	return lines
}

// timedOut says which limit ended a command, which nothing else would say.
func (e *Execution) timedOut() string {
	limit := e.setup.Options.Sandboxes[e.setup.Sandbox].Limits.Timeout
	from := "limits.timeout of sandbox " + strconv.Quote(e.setup.Sandbox)
	if at := e.place("limits.timeout"); at != "" {
		from += ", " + at
	}
	if e.flags.Timeout != nil {
		from = "-timeout"
	}
	return fmt.Sprintf("the command was ended after %v, its time limit (%s)", limit, from)
}

// place says where in the configuration an attribute of the sandbox stands, or
// would have to; "" for the built-in one.
func (e *Execution) place(attribute string) string {
	if attribute == "" || e.setup == nil || e.setup.File.Path() == "" {
		return ""
	}
	at, ok := e.setup.File.Locate(e.setup.Sandbox, attribute)
	if !ok {
		return ""
	}
	name := at.Filename
	if rel, err := filepath.Rel(e.Dir, name); err == nil && filepath.IsLocal(rel) {
		name = rel
	}
	return fmt.Sprintf("%s:%d", cli.Quote(name), at.Start.Line)
}
