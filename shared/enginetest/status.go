package enginetest

import (
	"fmt"
	"io"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// Status is how a case went.
type Status string

const (
	// Held: what must not be possible is not, and the control shows that it
	// could have been; or what must work does.
	Held Status = "held"
	// Leaked: what must not be possible is.
	Leaked Status = "leaked"
	// Failed: what must work does not, or the case could not be carried out.
	Failed Status = "failed"
	// ControlFailed: the action did not succeed where it is granted either, so
	// that its failure inside says nothing.
	ControlFailed Status = "control-failed"
	// Skipped: the engine does not claim a feature that the case needs.
	Skipped Status = "skipped"
	// NotApplicable: the case says nothing on this machine or for this user.
	NotApplicable Status = "not-applicable"
)

// Bad reports whether the engine, or the kit on this machine, has failed.
func (s Status) Bad() bool { return s == Leaked || s == Failed || s == ControlFailed }

// Result is the outcome of one case.
type Result struct {
	ID    string `json:"id"`    // of the case: "net.01"; it stays with what it tries
	Group Group  `json:"group"` // what it belongs to
	// Feature is what it is evidence of; empty where every engine must hold it.
	Feature shared.Feature `json:"feature,omitempty"`
	Title   string         `json:"title"`  // one line for people
	Status  Status         `json:"status"` // how it went
	// Found is how a case went that is Skipped since the engine does not claim the feature, and
	// could be tried all the same.
	Found  Status `json:"found,omitempty"`
	Detail string `json:"detail"` // what was found, or why there is nothing to find
	Millis int64  `json:"millis"` // how long it took
}

// Results are the outcomes of a suite, in its order.
type Results struct {
	Results []Result `json:"results"` // one of each case that was run

	claims shared.Features // of the engine
	all    bool            // that no case was left out by Options.Run
}

// Bad are the results that tell of a failure.
func (r Results) Bad() (bad []Result) {
	for _, one := range r.Results {
		if one.Status.Bad() {
			bad = append(bad, one)
		}
	}
	return bad
}

// Summary is one line with the number of each status that occurred.
func (r Results) Summary() string {
	counts := map[Status]int{}
	for _, one := range r.Results {
		counts[one.Status]++
	}
	var parts []string
	for _, s := range []Status{Held, Leaked, Failed, ControlFailed, Skipped, NotApplicable} {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
		}
	}
	if len(parts) == 0 {
		return "nothing was run"
	}
	return strings.Join(parts, ", ")
}

// WriteTable writes the results for people, grouped, one case a line. With
// brief, only those that tell of a failure.
func (r Results) WriteTable(w io.Writer, brief bool) error {
	var out strings.Builder
	var group Group
	for _, one := range r.Results {
		if brief && !one.Status.Bad() {
			continue
		}
		if one.Group != group {
			group = one.Group
			fmt.Fprintf(&out, "%s\n", group)
		}
		fmt.Fprintf(&out, "  %-14s %-13s %s", one.Status, one.ID, one.Title)
		if one.Detail != "" && one.Status != Held {
			out.WriteString(": " + printable(one.Detail))
		}
		out.WriteString("\n")
	}
	fmt.Fprintln(&out, r.Summary())
	if r.all {
		may, drop := r.Claims()
		if len(may) > 0 {
			fmt.Fprintf(&out, "you may claim: %s\n", joined(may))
		}
		if len(drop) > 0 {
			fmt.Fprintf(&out, "drop: %s\n", joined(drop))
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// printable keeps what came from inside from acting on a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}
