package execute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/audit"
	"github.com/sbxhost/sbxhost/internal/egress"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/shared"
)

// printChanges reports files that the command made and that act outside of its sandbox.
func (e *Execution) printChanges() {
	acting := 0
	for _, made := range e.report.Repositories {
		if !made.Executes() {
			continue
		}
		if acting++; acting <= maxRepositories {
			e.Say(made.String())
		}
	}
	if acting > maxRepositories {
		e.Say(fmt.Sprintf("and %d repositories more in which a git outside of a sandbox would act on what the command made; -result names them", acting-maxRepositories))
	}
	if made := e.report.Instructions; len(made) > 0 {
		e.Say("the command made or changed instructions for tools: " + hostpath.QuoteList(made))
	}
}

// printFindings reports once, on a terminal, that earlier commands made files that act outside of
// sandboxes.
func (e *Execution) printFindings(begin time.Time) {
	if e.host == nil || e.quiet || !cli.IsTerminal(e.Stderr) {
		return
	}
	list, _ := e.host.Findings() // sbxhost doctor reports the error
	earlier := 0
	for _, t := range list {
		if t.At.Before(begin) {
			earlier++
		}
	}
	if earlier > 0 {
		e.Say(cli.Plural(earlier, "path") + " of earlier commands can act outside of sandboxes: sbxhost doctor shows more, sbxhost doctor -seen forgets all")
	}
}

// maxRepositories is how many new repositories the messages name.
const maxRepositories = 10

// event prints events that a person should know while the command runs.
func (e *Execution) event(ev shared.Event) {
	e.events.event(ev)
	if e.noNotes {
		return
	}
	switch ev.Kind {
	case shared.EventDegraded:
		// Shortcomings of an engine or of this machine are the same for each command, but incidents
		// are not.
		lacks := ev.Details["feature"] != "" || ev.Details["mechanism"] == "landlock" || ev.Details["mechanism"] == "session"
		if !lacks || e.firstToday(ev.Message) {
			e.note("degraded: " + ev.Message)
		}
	case shared.EventDiscarded:
		if n := ev.Details["processes"]; n != "" {
			ev.Message += ". To keep " + map[bool]string{true: "it", false: "them"}[n == "1"] + ": -session NAME -keep"
		}
		e.note(ev.Message)
	case shared.EventLimit:
		if ev.Details["hold"] != "enforced" && e.firstToday(ev.Message) {
			e.note("degraded: " + ev.Message)
		}
	case shared.EventProgress:
		if cli.IsTerminal(e.Stderr) { // useless in a log
			e.note(ev.Message)
		}
	}
}

// firstToday reports whether this text was not printed for this sandbox during the last day.
func (e *Execution) firstToday(message string) bool {
	store, err := e.Store()
	if err != nil {
		return true
	}
	first, err := store.FirstToday(context.Background(), fmt.Sprintf("%s\x00%s\x00%s", e.setup.File.Path(), e.setup.Sandbox, message))
	return first || err != nil
}

// printUnsandboxed says that a command runs without the sandbox of its definition.
func (e *Execution) printUnsandboxed(d policy.Decision, engine string) {
	// An engine from somebody else, which the message names, may enforce some of a sandbox.
	if d.Outcome == policy.Unsandboxed && (d.Rule != policy.RuleEngineNamed || engine == "noop") {
		e.Say(fmt.Sprintf("running WITHOUT a sandbox (%s): %s", d.Rule, cli.OneLine(d.Reason)))
	}
}

// note prints one line when the terminal may be raw.
func (e *Execution) note(message string) {
	message = strings.ReplaceAll(message, "\n", " ")
	if !e.terminal.IsRaw() {
		e.Say(message)
		return
	}
	fmt.Fprintf(e.Stderr, "\rsbxhost: %s\r\n", cli.Printable(message))
}

// printReview says where the command's writes to the workspace are.
func (e *Execution) printReview() {
	if name := e.report.Review; name != "" && !e.quiet && e.report.Result != nil {
		first := ""
		if e.Remote != nil && e.Remote.AdaptTo != nil { // the session has it in use
			first = fmt.Sprintf("sbxhost sessions rm %s, and then ", e.SessionName())
		}
		e.Say(fmt.Sprintf("its writes to the workspace, if any, are in review %s: %ssbxhost review show -patch %s", name, first, name))
	}
}

// maxHints is how many lines of denials a command gets; maxTraceHints if the user asked for a
// trace.
const (
	maxHints      = 2
	maxTraceHints = 10
)

// printDenials reports what the sandbox refused to the command, the certain denials first.
func (e *Execution) printDenials() {
	if e.quiet || e.shell {
		return
	}
	shown := maxHints
	if e.trace {
		shown = maxTraceHints
	}
	failed := 0
	for _, u := range e.report.Network {
		if !u.Allowed || !strings.HasPrefix(u.Reason, "lookup ") { // by the host, for the command
			continue
		}
		if failed++; failed <= shown {
			e.Say(fmt.Sprintf("the sandbox allows %s, but this machine could not look it up: %s", hostpath.Line(u.Name), cli.OneLine(u.Reason)))
		}
	}
	if more := failed - shown; more > 0 {
		e.Say(fmt.Sprintf("this machine could not look up %d more names, which -result lists", more))
	}
	succeeded := e.report.ExitCode != nil && *e.report.ExitCode == 0
	quietly := succeeded && !e.trace && cli.IsTerminal(e.Stderr) // the user sees on the terminal that it went well
	denials := slices.DeleteFunc(slices.Clone(e.report.Denials), func(d host.Denial) bool {
		return d.Attribute == "limits.timeout" || quietly && d.Attribute == "network"
	})
	for i := range denials[:min(len(denials), shown)] {
		e.Say("hint: " + e.flags.DenialLine(&denials[i]))
	}
	if more := len(denials) - shown; more > 0 {
		e.Say(fmt.Sprintf("hint: and %d more, which -result lists", more))
	}
	if text := suggestion(e.sandboxName(), denials); e.trace && text != "" {
		e.Say(text)
	}
}

// suggestion is the smallest change of a definition that allows what was denied, in HCL; "" if no change does.
// Lists have only the elements to add.
func suggestion(sandbox string, denials []host.Denial) string {
	var names []string
	values := map[string][]string{}
	list := map[string]bool{}
	for i := range denials {
		d := &denials[i]
		if d.Value == "" || strings.ContainsAny(d.Attribute, "[") {
			continue // no proposal, or a change within an element, which its own line shows
		}
		switch {
		case values[d.Attribute] == nil:
			names = append(names, d.Attribute)
		case list[d.Attribute] && !d.Element:
			continue // the whole network includes each name
		case !list[d.Attribute] && d.Element:
			values[d.Attribute] = nil
		}
		if list[d.Attribute] = d.Element; !slices.Contains(values[d.Attribute], d.Value) {
			values[d.Attribute] = append(values[d.Attribute], d.Value)
		}
	}
	if len(names) == 0 {
		return ""
	}
	blocks := map[string][]string{} // lines, by a block such as limits; "" is the sandbox itself
	for _, name := range names {
		value := values[name][0]
		if list[name] {
			value = "[" + strings.Join(outermost(values[name]), ", ") + "]"
		}
		block, attribute, ok := strings.Cut(name, ".")
		if !ok {
			block, attribute = "", name
		}
		blocks[block] = append(blocks[block], "  "+attribute+" = "+value)
	}
	text := fmt.Sprintf("add this (keep what your lists have):\nsandbox %q {\n", sandbox)
	for _, block := range slices.Sorted(maps.Keys(blocks)) {
		lines := strings.Join(blocks[block], "\n")
		if block != "" {
			lines = fmt.Sprintf("  %s {\n  %s\n  }", block, strings.ReplaceAll(lines, "\n", "\n  "))
		}
		text += lines + "\n"
	}
	return text + "}"
}

// outermost drops quoted paths that are inside another one.
func outermost(values []string) []string {
	return slices.DeleteFunc(slices.Clone(values), func(v string) bool {
		return slices.ContainsFunc(values, func(around string) bool {
			return strings.HasPrefix(around, `"/`) && strings.HasPrefix(v, strings.TrimSuffix(around, `"`)+"/")
		})
	})
}

// placeDenial adds the place of the attribute that causes a denial, and the change in the caller's
// form.
func (e *Execution) placeDenial(d *host.Denial) {
	e.flags.PlaceDenial(e.App, e.setup, d)
	if d.Attribute == "limits.timeout" && e.setup != nil {
		d.Reason = e.timedOut()
	}
}

// hint adds help to err if the command was not found, and says which time limit, or whose end, ended
// it; nothing else would say that.
func (e *Execution) hint(err error) error {
	if errors.Is(err, host.ErrClosed) && e.Remote != nil { // by sessions rm, or with the server
		err = fmt.Errorf("session %q was ended, and the command with it", e.SessionName())
	}
	if errors.Is(err, host.ErrTimedOut) && e.setup != nil {
		if _, ran := errors.AsType[*host.ExitError](err); !ran {
			err = cli.Hint(err, "that and its run may take "+e.timeLimit())
		} else if !e.quiet {
			e.Say(e.timedOut())
		}
	}
	if e.cmd == nil || !errors.Is(err, shared.ErrNotFound) {
		e.printDenials()
		return err
	}
	switch {
	case len(e.report.Denials) > 0:
		return cli.Hint(err, e.flags.DenialLine(&e.report.Denials[0]))
	case !e.flags.Scripted && len(e.args) == 1 && strings.ContainsAny(e.args[0], " \t\n;|&<>$"):
		return cli.Hint(err, "if that is shell text, write -c before it: sbxhost exec -c "+cli.ShellQuote(e.args[0]))
	}
	return err
}

// maxSummary is how many lines a summary has.
const maxSummary = 20

// networkSummary returns one line for each name and outcome.
func networkSummary(uses []audit.NetworkUse) (lines []string) {
	for _, u := range uses {
		d := egress.Decision{Name: cmp.Or(u.Name, "others"), Port: u.Port, Source: u.By, Allowed: u.Allowed, Reason: u.Reason}
		if !u.Allowed {
			d.Reason = cmp.Or(u.Reason, "for various reasons")
		}
		line := d.String()
		if d.Reason == "" {
			line = fmt.Sprintf("network: %s%s: %d connections, %d bytes sent, %d received", d.Target(), d.SourceNote(), u.Connections, u.Sent, u.Received)
		}
		lines = append(lines, line)
	}
	if more := len(lines) - maxSummary; more > 0 {
		lines = append(lines[:maxSummary], fmt.Sprintf("network: and %d more", more))
	}
	return lines
}

// timedOut says which limit ended a command; nothing else would say that.
func (e *Execution) timedOut() string { return "the command was ended after " + e.timeLimit() }

// timeLimit is the command's time limit, and where that comes from.
func (e *Execution) timeLimit() string {
	limit := e.setup.Options.Sandboxes[e.setup.Sandbox].Limits.Timeout
	from := "limits.timeout of sandbox " + strconv.Quote(e.setup.Sandbox)
	if at := e.setup.Place(e.Dir, "limits.timeout"); at != "" {
		from += ", " + at
	}
	if e.flags.Timeout != nil {
		from = "-timeout"
	}
	return fmt.Sprintf("%v, its time limit (%s)", limit, from)
}
