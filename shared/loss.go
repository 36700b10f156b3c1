package shared

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// A Loss is a part of a [Spec] that an engine cannot enforce, because it lacks a feature.
type Loss struct {
	Feature   Feature // the missing feature
	Attribute string  // the attribute that asks for it, as in Error.Attribute; "isolation" for what every definition asks
	What      string  // what is lost, for people: "network = false"
	Hint      string  // what to write instead; may be empty
	Accepted  bool    // the Spec accepts the loss, which a host reports. A host refuses any other Loss
}

// InjectLoss is the Loss of [Network.Inject].
var InjectLoss = Loss{Feature: FeatureNetworkInject, Attribute: "credentials", What: "credentials that stay outside",
	Hint: `use engine "native" or "bwrap", or pass the credentials to commands, with pass = true in their credential blocks`}

// Event reports an accepted Loss.
func (l *Loss) Event(engine string) Event {
	e := Event{Kind: EventDegraded, Message: fmt.Sprintf("%s is not enforced: engine %q has no feature %s", l.What, engine, l.Feature),
		Details: map[string]string{"attribute": l.Attribute, "feature": string(l.Feature)}}
	if limit, ok := strings.CutPrefix(string(l.Feature), "limit."); ok {
		e.Kind = EventLimit
		e.Details = map[string]string{"limit": limit, "mechanism": "none", "hold": "not enforced"}
	}
	return e
}

// Refused returns nil if all losses are accepted. Otherwise its error is about the first loss that
// is not accepted. It also lists the other losses of the same attribute, and the features that the
// rest needs.
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
		case !slices.Contains(others, string(l.Feature)) && !slices.Contains(features, string(l.Feature)):
			others = append(others, string(l.Feature))
		}
	}
	nor := ""
	if len(others) > 0 {
		nor = ", nor " + strings.Join(others, ", ") + ", which the definition needs too"
	}
	return &Error{Kind: ErrUnsupported, Attribute: losses[i].Attribute, Hint: losses[i].Hint,
		Message: fmt.Sprintf("engine %q cannot enforce %s: it has no feature %s%s", engine, strings.Join(what, ", "), strings.Join(features, ", "), nor)}
}

// Without lists the parts of s that an engine with these features cannot enforce, so that a host
// can refuse or report them before the command runs. With no features, it lists all that s asks
// for. FeatureTTY is not in the list, because a [Command] asks for it.
//
// For an Unconfined Spec it lists only losses that would give the command other files than the Spec
// has, or no limit. It does not list missing isolation, because Unconfined asks for that.
//
// No Spec accepts the loss of write protection for the host's files: an engine that claims neither
// view cannot isolate.
func (s *Spec) Without(have Features) []Loss {
	l := losses{have: have}
	if s.Unconfined {
		l.add(FeatureUnconfined, "engine", "a run without isolation", `use engine "noop" for commands without isolation`, false)
	} else {
		l.ofNetwork(&s.Network, s.BestEffort)
		l.ofFilesystem(s)
	}
	l.ofTable(s)
	if !s.Unconfined {
		if len(s.Devices) > 0 {
			l.add(FeatureDevices, "devices", "devices", leaveOut, false)
		}
		l.ofIsolation(s)
	}
	if s.Session.Processes {
		l.add(FeatureProcesses, "session.processes", "processes that outlive their command", leaveOut, false)
	}
	if s.User != nil {
		l.add(FeatureUser, "run_as", "another user", leaveOut, false) // no attribute of a definition: only the host sets Spec.User
	}
	l.ofLimits(&s.Limits)
	return l.list
}

const (
	leaveOut = "leave it out, or use another engine"
	orLess   = `isolation = "best_effort" to run with less`
)

// ofGit begins Entry.Why of a protected path that git obeys, as package view writes it.
const ofGit = "protected: git"

// losses collects what an engine with some features cannot enforce.
type losses struct {
	have Features
	list []Loss
}

// add adds a loss once, unless the engine has the feature.
func (l *losses) add(f Feature, attribute, what, hint string, accepted bool) {
	if loss := (Loss{f, attribute, what, hint, accepted}); !l.have.Has(f) && !slices.Contains(l.list, loss) {
		l.list = append(l.list, loss)
	}
}

func (l *losses) ofNetwork(n *Network, bestEffort bool) {
	switch n.Mode {
	case NetworkHost:
		l.add(FeatureNetworkHost, "network", "network = true", "leave network out, or use another engine", false)
		return // the ports are the command's own
	case NetworkNames:
		if l.have.Has(FeatureNetworkProxy) {
			l.add(FeatureNetworkNames, "network", "a network for programs that ignore HTTP_PROXY and ALL_PROXY", "", true)
		} else {
			l.add(FeatureNetworkNames, "network", "a list of names", `write network = true or false, or use another engine`, false)
		}
	default:
		what := "network = false"
		if l.have.Has(FeatureNetworkTCP) {
			what += ", but for TCP,"
		}
		l.add(FeatureNetworkNone, "network", what, "network is false by default: write network = true, or "+orLess, bestEffort)
	}
	if len(n.Inject.Credentials) > 0 {
		l.add(InjectLoss.Feature, InjectLoss.Attribute, InjectLoss.What, InjectLoss.Hint, false)
	}
	if len(n.HostPorts) > 0 {
		l.add(FeatureNetworkPorts, "host_ports", "ports of the host", leaveOut, false)
	}
	if len(n.Publish) > 0 {
		l.add(FeatureNetworkPorts, "publish", "published ports", leaveOut, false)
	}
}

func (l *losses) ofFilesystem(s *Spec) {
	if s.Filesystem == FilesystemHost {
		l.add(FeatureFilesystemHost, "filesystem", `filesystem = "host"`, leaveOut, false)
		return
	}
	less := l.have.Has(FeatureFilesystemHost)
	hint := "filesystem is \"minimal\" by default: use another engine"
	if less {
		hint = `filesystem is "minimal" by default: write filesystem = "host", or ` + orLess
	}
	l.add(FeatureFilesystemMinimal, "filesystem", `filesystem = "minimal"`, hint, s.BestEffort && less)
}

func (l *losses) ofTable(s *Spec) {
	covers := Covers(s.Table)
	const hint = "leave it out, use another engine, or write " + orLess
	for i, e := range s.Table {
		e.Why = cmp.Or(e.Why, fmt.Sprintf("table[%d]", i))
		switch {
		case s.Unconfined && (e.Access == Hidden || e.Access == ReadOnly): // Unconfined means that it holds neither
		case e.Access == Hidden:
			l.add(FeatureHidden, origin(e.Why), origin(e.Why), hint, s.BestEffort)
		case e.Access == ReadOnly && e.Path != "/":
			if in, _ := covers(path.Dir(e.Path)); in != nil && (in.Access == ReadWrite || in.Access == Overlay) {
				l.add(FeatureNested, origin(e.Why), origin(e.Why), hint, s.BestEffort)
			}
		case e.Access == Private:
			l.add(FeatureTmpfs, e.Why, fmt.Sprintf("fresh memory at %q", e.Path), leaveOut, false)
		case e.Access == Overlay && !e.Degradable:
			l.add(FeatureOverlay, e.Why, fmt.Sprintf("an overlay at %q", e.Path), leaveOut, false)
		case e.Access == Overlay && !s.Unconfined: // then the path is as writable as before
			l.add(FeatureOverlay, e.Why, fmt.Sprintf("an overlay at %q, which is read-only,", e.Path), "", true)
		}
		if e.Access.Shows() && e.Source != e.Path {
			l.add(FeatureRemap, e.Why, fmt.Sprintf("%q as %q", e.Source, e.Path), "use the host's path inside, or another engine", false)
		}
	}
}

func (l *losses) ofIsolation(s *Spec) {
	const hint = `isolation is "full" by default: use another engine, or write ` + orLess
	if s.Home != "" {
		l.add(FeatureHomePrivate, "isolation", "a private home", hint, s.BestEffort)
	}
	l.add(FeatureTempPrivate, "isolation", "a private /tmp", hint, s.BestEffort)
	l.add(FeatureProcessesHidden, "isolation", "hiding other processes", hint, s.BestEffort)
	l.add(FeatureKernelFiltered, "isolation", "the filter of system calls", hint, s.BestEffort)
	l.add(FeatureMetadata, "isolation", "keeping commands from changing modes and times, and from seeing names, of files outside", hint, s.BestEffort)
}

func (l *losses) ofLimits(limits *Limits) {
	for _, limit := range []struct {
		set     bool
		feature Feature
	}{
		{limits.Memory > 0, FeatureLimitMemory}, {limits.CPUs > 0, FeatureLimitCPUs}, {limits.PIDs > 0, FeatureLimitPIDs},
		{limits.OpenFiles > 0, FeatureLimitOpenFiles}, {limits.TempSize > 0, FeatureLimitTempSize},
	} {
		if name := strings.Replace(string(limit.feature), "limit.", "limits.", 1); limit.set {
			l.add(limit.feature, name, name, `leave it out, or set enforce = "best_effort" to run without it`, limits.BestEffort)
		}
	}
}

// origin is what an entry's Why has in common with others, each of which is the same loss: all paths
// that are protected by default, and all that git obeys.
func origin(why string) string {
	if !strings.Contains(why, `"`) {
		why, _, _ = strings.Cut(why, ", ")
	}
	if strings.HasPrefix(why, ofGit+" ") {
		why = ofGit
	}
	return why
}
