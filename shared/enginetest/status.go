package enginetest

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/probes"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// Group is a part of what a sandbox must hold.
type Group string

const groupContract Group = "Contract" // the rules of package shared

// ProbeInfo describes a probe.
type ProbeInfo struct {
	ID, Title string // as in Result
	Group     Group  // likewise
	MustWork  bool   // whether it is of what must be possible, not of what must not
}

// Probes lists all probes, those for other platforms too.
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

// Status is how a case went.
type Status string

const (
	// Held: what must not be possible is not, and the control shows that it
	// could have been; or what must work does.
	Held = Status(scene.Held)
	// Leaked: what must not be possible is.
	Leaked = Status(scene.Leaked)
	// Failed: what must work does not, or the case could not be carried out.
	Failed = Status(scene.Failed)
	// Hung: the case did not end in Options.CaseTimeout.
	Hung = Status(scene.Hung)
	// ControlFailed: the action did not succeed where it is granted either, so
	// that its failure inside says nothing.
	ControlFailed = Status(scene.ControlFailed)
	// Skipped: the engine does not claim a feature that the case needs.
	Skipped = Status(scene.Skipped)
	// NotApplicable: the case says nothing on this machine or for this user.
	NotApplicable = Status(scene.NotApplicable)
)

// Bad reports whether the engine, or the kit on this machine, has failed.
func (s Status) Bad() bool { return scene.Status(s).Bad() }

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

// Summary is one line with the number of each status that occurred, and the cases that hung.
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
			out.WriteString(": " + hostpath.Line(one.Detail))
		}
		out.WriteString("\n")
	}
	fmt.Fprintln(&out, r.Summary())
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

// known are the features that this kit knows.
var known = shared.Features{
	shared.FeatureUnconfined, shared.FeatureNetworkNone, shared.FeatureNetworkHost, shared.FeatureNetworkNames, shared.FeatureNetworkProxy,
	shared.FeatureNetworkInject, shared.FeatureNetworkPorts, shared.FeatureNetworkTranslated, shared.FeatureNetworkTCP,
	shared.FeatureFilesystemMinimal, shared.FeatureFilesystemHost, shared.FeatureRemap, shared.FeatureOverlay, shared.FeatureOverlayKept,
	shared.FeatureTmpfs, shared.FeatureSourceFD, shared.FeatureNested, shared.FeatureHidden, shared.FeatureHomePrivate,
	shared.FeatureTempPrivate, shared.FeatureProcessesHidden, shared.FeatureProcesses, shared.FeatureKernelFiltered,
	shared.FeatureMetadata, shared.FeatureDevices, shared.FeatureTTY, shared.FeatureTrace,
	shared.FeatureUser, shared.FeatureLimitMemory, shared.FeatureLimitCPUs, shared.FeatureLimitPIDs, shared.FeatureLimitOpenFiles,
	shared.FeatureLimitTempSize,
}

// unknown are features that an engine claims and this kit does not know.
func unknown(claims shared.Features) shared.Features {
	return slices.DeleteFunc(slices.Clone(claims), known.Has)
}

// notKnown warns of them.
const notKnown = "the engine claims what this kit does not know, and tries nothing of: a name of docs/protocol.md is written otherwise, or the kit is older than the engine: "

// Claims says by what was found which features the engine may claim besides, since probes of
// them hold and none fails, and which of those that it claims it must drop.
func (r Results) Claims() (may, drop []shared.Feature) {
	held, bad := map[shared.Feature]bool{}, map[shared.Feature]bool{}
	var order []shared.Feature
	for _, one := range r.Results {
		if one.Feature == "" {
			continue
		}
		if !slices.Contains(order, one.Feature) {
			order = append(order, one.Feature)
		}
		held[one.Feature] = held[one.Feature] || one.Status == Held || one.Found == Held
		bad[one.Feature] = bad[one.Feature] || one.Status.Bad() || one.Found.Bad()
	}
	for _, f := range order {
		switch {
		case bad[f] && r.claims.Has(f):
			drop = append(drop, f)
		case held[f] && !bad[f] && !r.claims.Has(f):
			may = append(may, f)
		}
	}
	return may, drop
}
