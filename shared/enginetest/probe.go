package enginetest

import (
	"runtime"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// Group is a part of what a sandbox must hold.
type Group string

const (
	groupRead        Group = "Read"                 // what a command can read
	groupWrite       Group = "Write"                // what it can change, and what it leaves
	groupProcess     Group = "Processes and kernel" // whom it sees, what it asks the kernel for, how it ends
	groupNetwork     Group = "Network and sockets"  // whom it can speak to
	groupEnvironment Group = "Environment"          // what it is given besides files
	groupHost        Group = "Host side"            // what its launcher does outside
	groupMacOS       Group = "macOS"                // what that system alone has
	groupContract    Group = "Contract"             // the rules of package shared
)

// words are paths, or an action with its arguments. See fill for what they may stand for.
type words []string

// A probe is one obligation and how it is tried.
type probe struct {
	id    string
	title string // the obligation, in one line
	group Group

	// features are needed besides those that the Spec requires by itself.
	features []shared.Feature
	// only is the system that it is for, onlyLinux or onlyDarwin; empty is every one.
	only string
	// anyView and anyNetwork, which follow from the group, say that it is not about the files that the view shows,
	// or not about the network, so that it is tried in what an engine claims that
	// does not hold the minimal view, or no network.
	anyView, anyNetwork bool

	// prepare plants what the probe is about, outside of the sandbox.
	prepare func(s *scene) error
	// act is what is tried, in a sandbox that shows the workspace, writable, on the minimal
	// view and without a network; show are paths that it shows as well, read-only, and hide
	// paths that it hides.
	act, show, hide words
	// trial changes that in other ways.
	trial func(s *scene, t *trial)
	// works says that the action must succeed; otherwise it must not.
	works bool
	// refusal says that the engine may refuse the Spec or the Command instead.
	refusal bool

	// grant changes the trial so that the action succeeds in the engine. Without it, or
	// with a control that says so, it succeeds without a sandbox.
	grant   func(s *scene, t *trial)
	control control
	// ownNetwork says that the probe is about the host's own network, to which
	// an engine that claims FeatureNetworkTranslated grants no access.
	ownNetwork bool
	// maybe says that a machine may refuse the action to everybody, so that
	// a control that fails makes the probe not applicable.
	maybe bool

	// after looks at the host when the command is gone. What it finds is a leak.
	after func(s *scene) error
	// custom replaces all of the above from act on.
	custom func(s *scene)

	// unmodelled says, of a probe for macOS too, why no profile decides what it
	// finds, so that MacTrials has no attempts of it.
	unmodelled string
}

// control is where an action is shown to succeed.
type control int

const (
	// controlGranted runs it in the engine, with what the probe's grant adds. A probe
	// that has a grant need not say so.
	controlGranted control = iota
	// controlOutside runs it without a sandbox.
	controlOutside
	// controlPrivileged does so with all capabilities: as root, or as the root
	// of a user namespace of its own.
	controlPrivileged
)

// where is the probe's control.
func (p *probe) where() control {
	if p.control == controlGranted && p.grant == nil {
		return controlOutside
	}
	return p.control
}

// tried says whether it is an action that is tried, and not code of its own.
func (p *probe) tried() bool { return p.act != nil || p.trial != nil }

// ofLimit says whether it is of a limit, which an engine can hold without isolation.
func (p *probe) ofLimit() bool {
	return len(p.features) > 0 && strings.HasPrefix(string(p.features[0]), "limit.")
}

const onlyLinux, onlyDarwin = "Linux", "macOS"

// thisSystem is that of this machine, by these names.
var thisSystem = map[string]string{"linux": onlyLinux, "darwin": onlyDarwin}[runtime.GOOS]

// ProbeInfo describes a probe.
type ProbeInfo struct {
	ID, Title string // as in Result
	Group     Group  // likewise
	MustWork  bool   // whether it is of what must be possible, not of what must not
	Varies    bool   // whether a machine may refuse the action to everybody
}

// Probes lists all probes, those for other platforms too.
func Probes() []ProbeInfo {
	var list []ProbeInfo
	for _, p := range allProbes() {
		list = append(list, p.info())
	}
	return list
}

func (p *probe) info() ProbeInfo { return ProbeInfo{p.id, p.title, p.group, p.works, p.maybe} }

// allProbes are all, in the order in which they are shown.
func allProbes() (list []*probe) {
	for _, part := range []struct {
		group  Group
		probes []probe
	}{
		{groupRead, readProbes()},
		{groupRead, hiddenProbes()},
		{groupWrite, writeProbes()},
		{groupWrite, leftoverProbes()},
		{groupProcess, processProbes()},
		{groupProcess, kernelProbes()},
		{groupProcess, lifetimeProbes()},
		{groupNetwork, networkProbes()},
		{groupEnvironment, environmentProbes()},
		{groupHost, hostProbes()},
		{groupMacOS, macosProbes()},
	} {
		for _, p := range part.probes {
			p.group = part.group
			p.anyView = !slices.Contains([]Group{groupRead, groupWrite, groupMacOS}, p.group)
			p.anyNetwork = !slices.Contains([]Group{groupNetwork, groupMacOS}, p.group)
			list = append(list, &p)
		}
	}
	return list
}
