package shared

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// A Loss is a part of a [Spec] that an engine does not hold, since it does not claim the
// feature.
type Loss struct {
	Feature   Feature // what the engine would have to claim
	Attribute string  // what asked for it, as in Error.Attribute; "isolation" for what every definition asks
	What      string  // what is not held, for people: "network = false"
	Hint      string  // what to write instead; may be empty
	Accepted  bool    // the Spec takes less, which a host reports. Any other Loss is refused
}

// Event tells of a Loss that was accepted.
func (l *Loss) Event(engine string) Event {
	e := Event{Kind: EventDegraded, Message: fmt.Sprintf("%s is not held: engine %q has no feature %s", l.What, engine, l.Feature),
		Details: map[string]string{"attribute": l.Attribute, "feature": string(l.Feature)}}
	if limit, ok := strings.CutPrefix(string(l.Feature), "limit."); ok {
		e.Kind = EventLimit
		e.Details = map[string]string{"limit": limit, "mechanism": "none", "hold": "not held"}
	}
	return e
}

// Refused is the error for the first of some losses that is not accepted, and for all
// others of its attribute; nil where all are. It names the features that the rest take, too.
func Refused(engine string, losses []Loss) error {
	i := slices.IndexFunc(losses, func(l Loss) bool { return !l.Accepted })
	if i < 0 {
		return nil
	}
	var what, features, others []string
	for _, l := range losses[i:] {
		switch {
		case l.Accepted:
		case l.Attribute == losses[i].Attribute:
			what, features = append(what, l.What), append(features, string(l.Feature))
		case !slices.Contains(others, string(l.Feature)):
			others = append(others, string(l.Feature))
		}
	}
	nor := ""
	if len(others) > 0 {
		nor = ", nor " + strings.Join(others, ", ") + ", which is asked for, too"
	}
	return &Error{Kind: ErrUnsupported, Attribute: losses[i].Attribute, Hint: losses[i].Hint,
		Message: fmt.Sprintf("engine %q cannot hold %s: it has no feature %s%s", engine, strings.Join(what, ", "), strings.Join(features, ", "), nor)}
}

// Without says what of s an engine with these features would not hold, so that a host
// can refuse it or report it before anything runs. Of no features it is all that s
// asks for. FeatureTTY is not in it: a [Command] asks for that.
//
// Of a Spec that is Unconfined it is what would have the command work on other files than
// it was given, or without a bound: that it isolates nothing is what that means.
//
// That files of the host are protected from writing is never given up: an
// engine that claims neither view cannot be asked to isolate.
func (s *Spec) Without(have Features) []Loss {
	var losses []Loss
	add := func(f Feature, attribute, what, hint string, accepted bool) {
		if !have.Has(f) {
			losses = append(losses, Loss{f, attribute, what, hint, accepted})
		}
	}
	const (
		leaveOut = "leave it out, or use another engine"
		orLess   = `isolation = "best_effort" to run with less`
	)
	if s.Unconfined {
		add(FeatureUnconfined, "engine", "a run without isolation", `use engine "noop" for commands without isolation`, false)
	} else {
		switch s.Network.Mode {
		case NetworkHost:
			add(FeatureNetworkHost, "network", "network = true", "leave network out, or use another engine", false)
		case NetworkNames:
			if have.Has(FeatureNetworkProxy) {
				add(FeatureNetworkNames, "network", "a network for programs that ignore HTTP_PROXY and ALL_PROXY", "", true)
			} else {
				add(FeatureNetworkNames, "network", "a list of names", `write network = true or false, or use another engine`, false)
			}
		default:
			what := "network = false"
			if have.Has(FeatureNetworkTCP) {
				what += ", but for TCP,"
			}
			add(FeatureNetworkNone, "network", what, "network is false by default: write network = true, or "+orLess, s.BestEffort)
		}
		if s.Network.Mode != NetworkHost && len(s.Network.HostPorts) > 0 {
			add(FeatureNetworkPorts, "host_ports", "ports of the host", leaveOut, false)
		}
		if s.Network.Mode != NetworkHost && len(s.Network.Publish) > 0 {
			add(FeatureNetworkPorts, "publish", "published ports", leaveOut, false)
		}
		switch s.Filesystem {
		case FilesystemHost:
			add(FeatureFilesystemHost, "filesystem", `filesystem = "host"`, leaveOut, false)
		default:
			less := have.Has(FeatureFilesystemHost)
			hint := "filesystem is \"minimal\" by default: use another engine"
			if less {
				hint = `filesystem is "minimal" by default: write filesystem = "host", or ` + orLess
			}
			add(FeatureFilesystemMinimal, "filesystem", `filesystem = "minimal"`, hint, s.BestEffort && less)
		}
	}
	covers := Covers(s.Table)
	var hidden, nested []count
	for i, e := range s.Table {
		e.Why = cmp.Or(e.Why, fmt.Sprintf("table[%d]", i))
		switch {
		case s.Unconfined && (e.Access == Hidden || e.Access == ReadOnly): // that neither holds is what it means
		case e.Access == Hidden && !have.Has(FeatureHidden):
			hidden = counted(hidden, e.Why)
		case (e.Access == Hidden || e.Access == ReadOnly) && e.Path != "/":
			if in, _ := covers(path.Dir(e.Path)); in != nil && (in.Access == ReadWrite || in.Access == Overlay) {
				nested = counted(nested, e.Why)
			}
		case e.Access == Private:
			add(FeatureTmpfs, e.Why, fmt.Sprintf("fresh memory at %q", e.Path), leaveOut, false)
		case e.Access == Overlay && !e.Degradable:
			add(FeatureOverlay, e.Why, fmt.Sprintf("an overlay at %q", e.Path), leaveOut, false)
		case e.Access == Overlay && !s.Unconfined: // there it is as writable as it was
			add(FeatureOverlay, e.Why, fmt.Sprintf("an overlay at %q, which is read-only,", e.Path), "", true)
		}
		if e.Access.Shows() && e.Source != e.Path {
			add(FeatureRemap, e.Why, fmt.Sprintf("%q as %q", e.Source, e.Path), "use the host's path inside, or another engine", false)
		}
	}
	for _, c := range hidden {
		add(FeatureHidden, c.why, c.String(), "leave it out, use another engine, or write "+orLess, s.BestEffort)
	}
	for _, c := range nested {
		add(FeatureNested, c.why, c.String(), "leave it out, use another engine, or write "+orLess, s.BestEffort)
	}
	if !s.Unconfined {
		const hint = `isolation is "full" by default: use another engine, or write ` + orLess
		if s.Home != "" {
			add(FeatureHomePrivate, "isolation", "a private home", hint, s.BestEffort)
		}
		add(FeatureTempPrivate, "isolation", "a private /tmp", hint, s.BestEffort)
		add(FeatureProcessesHidden, "isolation", "hiding other processes", hint, s.BestEffort)
		add(FeatureKernelFiltered, "isolation", "the filter of system calls", hint, s.BestEffort)
	}
	if s.User != nil {
		add(FeatureUser, "run_as", "another user", leaveOut, false)
	}
	l := s.Limits
	for _, limit := range []struct {
		set     bool
		feature Feature
	}{
		{l.Memory > 0, FeatureLimitMemory}, {l.CPUs > 0, FeatureLimitCPUs}, {l.PIDs > 0, FeatureLimitPIDs},
		{l.OpenFiles > 0, FeatureLimitOpenFiles}, {l.TempSize > 0, FeatureLimitTempSize},
	} {
		if name := strings.Replace(string(limit.feature), "limit.", "limits.", 1); limit.set {
			add(limit.feature, name, name, `leave it out, or set enforce = "best_effort" to run without it`, l.BestEffort)
		}
	}
	return losses
}

// A count is how many entries of a table have one reason.
type count struct {
	why string
	n   int
}

func (c *count) String() string {
	if c.n == 1 {
		return c.why
	}
	return fmt.Sprintf("%s (%d paths)", c.why, c.n)
}

// counted counts one more. What is protected by default is one reason.
func counted(list []count, why string) []count {
	if !strings.Contains(why, `"`) {
		why, _, _ = strings.Cut(why, ", ")
	}
	if i := slices.IndexFunc(list, func(c count) bool { return c.why == why }); i >= 0 {
		list[i].n++
		return list
	}
	return append(list, count{why, 1})
}
