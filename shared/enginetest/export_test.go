package enginetest

// RuleIDs lists the contract's rules.
func RuleIDs() (ids []string) {
	for _, r := range contractRules() {
		ids = append(ids, r.id)
	}
	return ids
}

func probeByID(id string) (p probe) {
	for _, g := range probeGroups() {
		for _, one := range g.probes {
			if one.id == id {
				p = one
			}
		}
	}
	return p
}

// MustWork says that a probe is of what must be possible, or of what holds
// without isolation, too.
func MustWork(id string) bool { return probeByID(id).works }

// ControlIsGranted says that a probe has its control in the engine.
func ControlIsGranted(id string) bool {
	p := probeByID(id)
	return p.trial != nil && p.control == controlGranted && !p.works
}

// NeedsPrivilege says that a probe tries what the host, too, lets none but a
// privileged process do.
func NeedsPrivilege(id string) bool { return probeByID(id).control == controlPrivileged }
