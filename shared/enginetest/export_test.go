package enginetest

import (
	"slices"

	"github.com/sbxhost/sbxhost/shared"
)

// RuleIDs lists the contract's rules.
func RuleIDs() (ids []string) {
	for _, r := range contractRules() {
		ids = append(ids, r.id)
	}
	return ids
}

// AskedFeatures are the features that open.03 asks Open for.
func AskedFeatures() (list shared.Features) {
	for _, a := range asks("/x") {
		list = append(list, a.feature)
	}
	return slices.Compact(list)
}

func probeByID(id string) *probe {
	for _, p := range allProbes() {
		if p.id == id {
			return p
		}
	}
	return &probe{}
}

// MustWork says that a probe is of what must be possible, or of what holds
// without isolation, too.
func MustWork(id string) bool { return probeByID(id).works }

// ControlIsGranted says that a probe has its control in the engine.
func ControlIsGranted(id string) bool {
	p := probeByID(id)
	return p.tried() && p.where() == controlGranted && !p.works
}

// NeedsPrivilege says that a probe tries what the host, too, lets none but a
// privileged process do.
func NeedsPrivilege(id string) bool { return probeByID(id).control == controlPrivileged }
