package enginetest

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/contract"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/probes"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// Group is one part of the kit.
type Group string

const groupContract Group = "Contract" // the rules of package shared

// ProbeInfo describes a probe.
type ProbeInfo struct {
	ID, Title string // as in Result
	Group     Group  // as in Result
	MustWork  bool   // the action must succeed; otherwise it must fail
}

// Probes lists all probes, with those for other platforms.
func Probes() []ProbeInfo {
	var list []ProbeInfo
	for _, p := range probes.All() {
		list = append(list, infoOf(p))
	}
	return list
}

func infoOf(p *probes.Probe) ProbeInfo {
	return ProbeInfo{p.ID, p.Title, Group(p.Group), p.Works}
}

// Status is the outcome of a case.
type Status string

const (
	// Held: a forbidden action failed, though the control shows that it can succeed; or a required
	// action succeeded.
	Held = Status(scene.Held)
	// Leaked: a forbidden action succeeded.
	Leaked = Status(scene.Leaked)
	// Failed: a required action failed, or the case could not run.
	Failed = Status(scene.Failed)
	// Hung: the case did not end within Options.CaseTimeout.
	Hung = Status(scene.Hung)
	// ControlFailed: the action failed also where it is permitted, so its failure inside proves
	// nothing.
	ControlFailed = Status(scene.ControlFailed)
	// Skipped: the engine does not claim a feature that the case needs.
	Skipped = Status(scene.Skipped)
	// NotApplicable: the case proves nothing on this machine or for this user.
	NotApplicable = Status(scene.NotApplicable)
)

// Bad reports whether the engine, or the kit on this machine, has failed.
func (s Status) Bad() bool { return scene.Status(s).Bad() }

// Result is the outcome of one case.
type Result struct {
	ID    string `json:"id"`    // of the case: "net.01"; it never means another case
	Group Group  `json:"group"` // its part of the kit
	// Feature is the feature that the case is evidence for; empty if every engine must pass it.
	Feature shared.Feature `json:"feature,omitempty"`
	Title   string         `json:"title"`  // one line for people
	Status  Status         `json:"status"` // the outcome
	// Found is the outcome of a case that is Skipped because the engine does not claim the feature,
	// if the kit could run it.
	Found  Status `json:"found,omitempty"`
	Detail string `json:"detail"` // what was found, or why there is nothing to find
	Millis int64  `json:"millis"` // duration in milliseconds
}

// Results are the outcomes of a suite, in its order.
type Results struct {
	Results []Result `json:"results"` // one for each case that ran

	claims shared.Features // the engine's
	all    bool            // Options.Run left out no case
}

// Bad returns the results that are failures.
func (r Results) Bad() []Result {
	return slices.DeleteFunc(slices.Clone(r.Results), func(one Result) bool { return !one.Status.Bad() })
}

// Summary is one line with the number of each status, and the cases that hung.
func (r Results) Summary() string {
	counts := map[Status]int{}
	var hung []string
	for _, one := range r.Results {
		counts[one.Status]++
		if one.Status == Hung {
			hung = append(hung, one.ID)
		}
	}
	var parts []string
	for _, s := range []Status{Held, Leaked, Failed, Hung, ControlFailed, Skipped, NotApplicable} {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
		}
	}
	if hung != nil {
		parts = append(parts, "hung: "+strings.Join(hung, " "))
	}
	if len(parts) == 0 {
		return "nothing was run"
	}
	return strings.Join(parts, ", ")
}

// WriteTable writes the results for people, in groups, one case a line; with brief only
// failures. Then it tells why cases were skipped.
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
			out.WriteString(": " + hostpath.Line(one.Detail))
		}
		out.WriteString("\n")
	}
	fmt.Fprintln(&out, r.Summary())
	skipped := map[string]int{}
	for _, one := range r.Results {
		if why, _, _ := strings.Cut(one.Detail, "; found: "); one.Status == Skipped {
			skipped[hostpath.Line(why)]++
		}
	}
	for _, why := range slices.SortedFunc(maps.Keys(skipped), func(a, b string) int { return cmp.Or(skipped[b]-skipped[a], strings.Compare(a, b)) }) {
		fmt.Fprintf(&out, "%d skipped: %s\n", skipped[why], why)
	}
	if more := unknown(r.claims); len(more) > 0 {
		fmt.Fprintf(&out, "warning: %s%s\n", notKnown, scene.Joined(more))
	}
	if r.all {
		may, drop := r.Claims()
		if len(may) > 0 {
			fmt.Fprintf(&out, "you may claim: %s\n", scene.Joined(may))
		}
		if len(drop) > 0 {
			fmt.Fprintf(&out, "drop: %s\n", scene.Joined(drop))
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// known returns the features that this kit knows: those that a Spec asks for, and others.
func known() shared.Features {
	return append(contract.Asked(), shared.FeatureUnconfined, shared.FeatureNetworkProxy, shared.FeatureNetworkTranslated, shared.FeatureNetworkTCP,
		shared.FeatureOverlayKept, shared.FeatureSourceFD, shared.FeatureProcesses, shared.FeatureTTY, shared.FeatureTrace)
}

// unknown are an engine's features that this kit does not know.
func unknown(claims shared.Features) shared.Features {
	return slices.DeleteFunc(slices.Clone(claims), known().Has)
}

// notKnown warns of unknown features.
const notKnown = "the engine claims features that this kit does not know and cannot test: a name differs from docs/protocol.md, or the kit is older than the engine: "

// Claims returns the features that the engine may also claim, because their probes hold, and none
// fails or could not run, and those that it must drop.
func (r Results) Claims() (may, drop []shared.Feature) {
	held, bad, untried := map[shared.Feature]bool{}, map[shared.Feature]bool{}, map[shared.Feature]bool{}
	for _, one := range r.Results {
		held[one.Feature] = held[one.Feature] || one.Status == Held || one.Found == Held
		bad[one.Feature] = bad[one.Feature] || one.Status.Bad() || one.Found.Bad()
		untried[one.Feature] = untried[one.Feature] || one.Group != groupContract && one.Status == Skipped && one.Found == ""
	}
	for _, f := range known() {
		switch {
		case bad[f] && r.claims.Has(f):
			drop = append(drop, f)
		case held[f] && !bad[f] && !untried[f] && !r.claims.Has(f):
			may = append(may, f)
		}
	}
	return may, drop
}
