package cgroup

import "slices"

// Limits bound all processes of a group together. Zero means no limit.
type Limits struct {
	Memory uint64  // bytes, with swap
	CPUs   float64 // processors' worth of time
	PIDs   uint64  // processes and threads at once
}

// Controller is the part of the kernel that enforces one kind of limit.
type Controller string

const (
	Memory Controller = "memory" // bytes
	CPU    Controller = "cpu"    // processor time
	PIDs   Controller = "pids"   // processes and threads
)

// those are the controllers that are chosen.
func those(chosen func(Controller) bool) []Controller {
	return slices.DeleteFunc([]Controller{Memory, CPU, PIDs}, func(c Controller) bool { return !chosen(c) })
}

// both are the controllers that are in both lists.
func both(one, other []Controller) []Controller {
	return those(func(c Controller) bool { return slices.Contains(one, c) && slices.Contains(other, c) })
}

// needs are the controllers for the limits that are set.
func (l Limits) needs() []Controller {
	set := map[Controller]bool{Memory: l.Memory > 0, CPU: l.CPUs > 0, PIDs: l.PIDs > 0}
	return those(func(c Controller) bool { return set[c] })
}

// A Place is a directory of the cgroup file system in which this process can make groups.
type Place struct {
	Version     int // of the interface: 1 or 2
	Dir         string
	Controllers []Controller // they work in groups made there
}

// Manager is a user's systemd, which makes groups on request.
type Manager struct {
	Bus         string       // the busctl program
	RuntimeDir  string       // XDG_RUNTIME_DIR, with which busctl finds the manager
	Controllers []Controller // those that its user may use
}

// Host is what a machine offers to this process. The zero value offers nothing.
type Host struct {
	Places  []Place  // the best first
	Manager *Manager // the user's systemd; may be nil
}

// Decision says what enforces which limits of a command.
type Decision struct {
	limits Limits
	parts  []Place // with the controllers that enforce something
	via    *Manager
}

// Decide finds what enforces most of the limits. It changes nothing.
func (h Host) Decide(l Limits) Decision {
	d := Decision{limits: l}
	left := l.needs()
	needed := len(left)
	for _, p := range h.Places {
		if hold := both(left, p.Controllers); len(hold) > 0 {
			d.parts = append(d.parts, Place{p.Version, p.Dir, hold})
			left = slices.DeleteFunc(left, func(c Controller) bool { return slices.Contains(hold, c) })
		}
	}
	if h.Manager == nil || len(left) == 0 {
		return d
	}
	if len(both(l.needs(), h.Manager.Controllers)) > needed-len(left) {
		// Not beside our own groups: a process is in one group of version 2.
		d.parts, d.via = nil, h.Manager
	}
	return d
}

// WithMore is d for a command whose group has n processes and threads beyond the limit of processes,
// which must be set.
func (d Decision) WithMore(n uint64) Decision {
	d.limits.PIDs += n
	return d
}

// Mechanism names what enforces the limits of c, for people; "" if nothing does.
func (d Decision) Mechanism(c Controller) string {
	if !slices.Contains(d.limits.needs(), c) {
		return ""
	}
	if d.via != nil && slices.Contains(d.via.Controllers, c) {
		return "systemd scope"
	}
	for _, p := range d.parts {
		if slices.Contains(p.Controllers, c) {
			if p.Version == 1 {
				return "cgroup v1"
			}
			return "cgroup v2"
		}
	}
	return ""
}
