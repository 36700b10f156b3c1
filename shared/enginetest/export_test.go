package enginetest

import (
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/contract"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/probes"
)

// RuleIDs lists the contract's rules.
func RuleIDs() (ids []string) {
	for _, r := range contract.Rules() {
		ids = append(ids, r.ID)
	}
	return ids
}

// AskedFeatures are the features that open.03 asks Open for.
func AskedFeatures() shared.Features { return contract.Asked() }

func probeByID(id string) *probes.Probe {
	for _, p := range probes.All() {
		if p.ID == id {
			return p
		}
	}
	return &probes.Probe{}
}

// MustWork says that a probe is of what must be possible, or of what holds
// without isolation, too.
func MustWork(id string) bool { return probeByID(id).Works }

// ControlIsGranted says that a probe has its control in the engine.
func ControlIsGranted(id string) bool {
	p := probeByID(id)
	return p.Tried() && p.ControlGranted() && !p.Works
}

// NeedsPrivilege says that a probe tries what the host, too, lets none but a
// privileged process do.
func NeedsPrivilege(id string) bool { return probeByID(id).Privileged }
