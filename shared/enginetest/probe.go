package enginetest

import (
	"context"
	"os"
	"runtime"

	"github.com/sbxhost/sbxhost/shared"
)

// Group is a part of what a sandbox must hold.
type Group string

const (
	GroupRead        Group = "Read"                 // what a command can read
	GroupWrite       Group = "Write"                // what it can change, and what it leaves
	GroupProcess     Group = "Processes and kernel" // whom it sees, what it asks the kernel for, how it ends
	GroupNetwork     Group = "Network and sockets"  // whom it can speak to
	GroupEnvironment Group = "Environment"          // what it is given besides files
	GroupHost        Group = "Host side"            // what its launcher does outside
	GroupMacOS       Group = "macOS"                // what that system alone has
	GroupContract    Group = "Contract"             // the rules of package shared
)

// A probe is one obligation and how it is tried.
type probe struct {
	id    string
	title string // the obligation, in one line

	// features are needed besides those that the Spec requires by itself.
	features []shared.Feature
	only     only
	// anyView and anyNetwork say that it is not about the files that the view shows,
	// or not about the network, so that it is tried in what an engine claims that
	// does not hold the minimal view, or no network.
	anyView, anyNetwork bool

	// prepare plants what the probe is about, outside of the sandbox.
	prepare func(s *scene) error
	// trial says what is tried, starting from a sandbox that shows the
	// workspace, writable, on the minimal view and without a network.
	trial func(s *scene, t *trial)
	// works says that the action must succeed; otherwise it must not.
	works bool
	// refusal says that the engine may refuse the Spec or the Command instead.
	refusal bool

	// control says where the same action succeeds.
	control control
	// grant changes the trial so that it does, for controlGranted.
	grant func(s *scene, t *trial)
	// ownNetwork says that the probe is about the host's own network, to which
	// an engine that claims FeatureNetworkTranslated grants no access.
	ownNetwork bool
	// maybe says that a machine may refuse the action to everybody, so that
	// a control that fails makes the probe not applicable.
	maybe bool

	// after looks at the host when the command is gone. What it finds is a leak.
	after func(s *scene, o *outcome) error
	// custom replaces all of the above from trial on.
	custom func(ctx context.Context, s *scene) (Status, string)

	// unmodelled says, of a probe for macOS too, why no profile decides what it
	// finds, so that MacTrials has no attempts of it.
	unmodelled string
}

// control is where an action is shown to succeed.
type control int

const (
	// controlOutside runs the action without a sandbox.
	controlOutside control = iota
	// controlPrivileged does so with all capabilities: as root, or as the root
	// of a user namespace of its own.
	controlPrivileged
	// controlGranted runs it in the engine, with what the probe's grant adds.
	controlGranted
	// controlNone is for what must work: its success is its own control.
	controlNone
)

// only is what a probe makes sense for; zero is everywhere.
type only uint

const (
	onlyLinux only = 1 << iota
	onlyDarwin
	onlyRoot // the kit's process is root
	onlyUser // it is not
)

// excluded says why a probe makes no sense here, or "".
func (o only) excluded() string {
	switch {
	case o&onlyLinux != 0 && runtime.GOOS != "linux":
		return "only on Linux"
	case o&onlyDarwin != 0 && runtime.GOOS != "darwin":
		return "only on macOS"
	case o&onlyRoot != 0 && os.Geteuid() != 0:
		return "only for root"
	case o&onlyUser != 0 && os.Geteuid() == 0:
		return "only for an ordinary user"
	}
	return ""
}

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
	for _, g := range probeGroups() {
		for _, p := range g.probes {
			list = append(list, p.info(g.group))
		}
	}
	return list
}

func (p *probe) info(g Group) ProbeInfo { return ProbeInfo{p.id, p.title, g, p.works, p.maybe} }

// probeGroups are all probes, in the order in which they are shown.
func probeGroups() []struct {
	group  Group
	probes []probe
} {
	return []struct {
		group  Group
		probes []probe
	}{
		{GroupRead, readProbes()},
		{GroupRead, hiddenProbes()},
		{GroupWrite, writeProbes()},
		{GroupWrite, leftoverProbes()},
		{GroupProcess, processProbes()},
		{GroupProcess, kernelProbes()},
		{GroupProcess, lifetimeProbes()},
		{GroupNetwork, networkProbes()},
		{GroupEnvironment, environmentProbes()},
		{GroupHost, hostProbes()},
		{GroupMacOS, macosProbes()},
	}
}
