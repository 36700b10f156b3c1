// Package probes has what the conformance kit tries in a sandbox, as data: a file for each heading
// of the table. A probe has a control, which shows the same action succeed; try.go says what
// an attempt and its control mean together.
package probes

import (
	"runtime"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// The groups of probes; see enginetest.Group.
const (
	groupRead        = "Read"                 // what a command can read
	groupWrite       = "Write"                // what it can change, and what it leaves
	groupProcess     = "Processes and kernel" // whom it sees, what it asks the kernel for, how it ends
	groupNetwork     = "Network and sockets"  // whom it can speak to
	groupEnvironment = "Environment"          // what it is given besides files
	groupHost        = "Host side"            // what its launcher does outside
	groupMacOS       = "macOS"                // what that system alone has
)

// A preparation plants what a probe is about, outside of the sandbox.
type preparation func(s *scene.Scene)

// all does several.
func all(list ...preparation) preparation {
	return func(s *scene.Scene) {
		for _, f := range list {
			f(s)
		}
	}
}

// A change is one of a probe's trial; nil changes nothing.
type change func(s *scene.Scene, t *scene.Trial)

// changes makes several.
func changes(list ...change) change {
	return func(s *scene.Scene, t *scene.Trial) {
		for _, f := range list {
			if f != nil {
				f(s, t)
			}
		}
	}
}

// does replaces the trial's action.
func does(act string) change {
	return func(s *scene.Scene, t *scene.Trial) { t.Act, t.First = s.Words(act), nil }
}

// A Probe is one obligation and how it is tried.
type Probe struct {
	ID    string
	Title string // the obligation, in one line
	Group string

	// Features are needed besides those that the Spec requires by itself.
	Features []shared.Feature
	// Only is the system that it is for, OnlyLinux or OnlyDarwin; empty is every one.
	Only    string
	prepare preparation
	// act is what is tried, in a sandbox that shows the workspace, writable, on the minimal
	// view and without a network; show are paths that it shows as well, read-only, and hide
	// paths that it hides. Spaces are between words; see [scene.Scene.Fill] for what is in braces.
	act, show, hide string
	// trial changes that in other ways.
	trial change
	// Works says that the action must succeed; otherwise it must not.
	Works bool
	// Refusal says that the engine may refuse the Spec or the Command instead.
	Refusal bool

	// grant changes the trial so that the action succeeds in the engine; of what is hidden
	// that is to show it. Without it, or with outside, the action succeeds without a sandbox.
	grant   change
	outside bool
	// Privileged says that it succeeds there with all capabilities: as root, or as the root of a
	// user namespace of its own.
	Privileged bool
	// ownNetwork says that the probe is about the host's own network, to which
	// an engine that claims FeatureNetworkTranslated grants no access.
	ownNetwork bool
	// Maybe says that a machine may refuse the action to everybody, so that
	// a control that fails makes the probe not applicable.
	Maybe bool

	// after looks at the host when the command is gone. What it finds is a leak.
	after func(s *scene.Scene) error
	// custom replaces all of the above from act on.
	custom func(s *scene.Scene)

	// Unmodelled says, of a probe for macOS too, why no profile decides what it
	// finds, so that MacTrials has no attempts of it.
	Unmodelled string
}

// Why no profile decides what a probe finds.
const (
	decidedByEngine  = "a matter of what the engine hands over, which its other tests hold"
	decidedByRequest = "a matter of what the engine refuses, before there is a profile"
	decidedByEnd     = "a matter of what ends when, which no profile says"
	decidedByProxy   = "a matter of what the proxy leads to, to which profiles only let commands speak"
	decidedByLimits  = "a matter of limits, of which profiles have none"
)

// Place describes the probe's scenes.
func (p *Probe) Place() scene.Place {
	return scene.Place{
		ID: p.ID, Prepare: p.prepare, AnyNetwork: !slices.Contains([]string{groupNetwork, groupMacOS}, p.Group),
		AnyView: p.Group != groupMacOS && !p.in(ofMinimal),
	}
}

// ControlGranted reports whether the action is shown to succeed in the engine.
func (p *Probe) ControlGranted() bool { return p.grant != nil && !p.outside }

// Tried reports whether the probe tries an action, and has no code of its own.
func (p *Probe) Tried() bool { return p.act != "" || p.trial != nil }

// OfLimit reports whether the probe is about a limit, which an engine can enforce without
// isolation.
func (p *Probe) OfLimit() bool {
	return len(p.Features) > 0 && strings.HasPrefix(string(p.Features[0]), "limit.")
}

// The systems to which a probe can be limited.
const OnlyLinux, OnlyDarwin = "Linux", "macOS"

// thisSystem is that of this machine, by these names.
var thisSystem = map[string]string{"linux": OnlyLinux, "darwin": OnlyDarwin}[runtime.GOOS]

// fromSecond are the probes that the second command of a sandbox tries, too, and by which ID: one
// of each part that an engine sets up when it opens a sandbox.
var fromSecond = map[string]string{"read.13": "read.82", "read.40": "read.80", "write.16": "write.82", "net.01": "net.35", "proc.35": "proc.43"}

// again is the probe from the second command.
func (p Probe) again(id string) *Probe {
	p.ID, p.Title, p.trial = id, p.Title+", from the second command", changes(p.trial, first("nothing"))
	return &p
}

// All returns all probes, in the order of the table.
func All() (list []*Probe) {
	for _, part := range []struct {
		group  string
		probes []Probe
	}{
		{groupRead, slices.Concat(readProbes(), hiddenProbes())},
		{groupWrite, slices.Concat(writeProbes(), leftoverProbes())},
		{groupProcess, slices.Concat(processProbes(), kernelProbes(), lifetimeProbes())},
		{groupNetwork, networkProbes()},
		{groupEnvironment, environmentProbes()},
		{groupHost, hostProbes()},
		{groupMacOS, macosProbes()},
	} {
		for _, p := range part.probes {
			p.Group = part.group
			if p.hide != "" && !p.Works && !p.Maybe {
				p.grant = unhidden
			}
			list = append(list, &p)
			if id := fromSecond[p.ID]; id != "" {
				list = append(list, p.again(id))
			}
		}
	}
	return list
}
