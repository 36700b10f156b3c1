package daemon

import (
	"fmt"

	"github.com/sbxhost/sbxhost/shared"
)

// Facts are the facts about a daemon for a plan.
type Facts struct {
	Version  string
	Rootless bool    // uid 0 inside is the daemon's user
	owner    *uint32 // of a rootless one; nil means unknown
	Remapped bool    // uids inside differ from the host's, unless asked otherwise
	// RecursiveRO says that mounts below a read-only bind can be read-only too.
	RecursiveRO bool
	Limits      map[string]bool // which it can enforce of "memory", "cpus" and "pids"
	Cgroup      string          // "1" or "2"
	CPUs        int             // of its machine; 0 means unknown
}

// Holdable refuses limits that the daemon's machine cannot enforce, or with best effort removes and
// reports them.
func Holdable(d Facts, l *shared.Limits) ([]shared.Event, error) {
	var out []shared.Event
	for _, limit := range []struct {
		name string
		set  bool
		drop func()
	}{
		{"memory", l.Memory > 0, func() { l.Memory = 0 }},
		{"cpus", l.CPUs > 0, func() { l.CPUs = 0 }},
		{"pids", l.PIDs > 0, func() { l.PIDs = 0 }},
	} {
		switch {
		case !limit.set || d.Limits[limit.name]:
		case !l.BestEffort:
			return nil, &shared.Error{Kind: shared.ErrUnsupported, Attribute: "limits." + limit.name,
				Message: "the Docker daemon cannot hold it: " + d.Lacks(),
				Hint:    `enable the controller, leave the limit out, or say enforce = "best_effort"`}
		default:
			limit.drop()
			out = append(out, shared.LimitEvent(limit.name, "", "not enforced"))
		}
	}
	return out, nil
}

// Lacks says why a daemon cannot enforce a limit.
func (d *Facts) Lacks() string {
	if d.Rootless {
		return "it is rootless, and gets the cgroup controller only if systemd delegates it on cgroup v2"
	}
	return "its machine lacks the cgroup controller"
}

// overflowUID is the kernel's number for a user without a number here.
const overflowUID = 65534

// OwnedBy refuses a rootless daemon of another user: its containers map only that user, so commands
// would run as that user.
func (d *Facts) OwnedBy(u shared.User) error {
	switch {
	case !d.Rootless:
		return nil
	case d.owner == nil:
		return &shared.Error{Kind: shared.ErrUnavailable, Attribute: "engine", Message: "the rootless daemon's user is not known, and commands would run as that user",
			Hint: "run sbxhost where the daemon runs, not in another user namespace, or use a rootful daemon"}
	case *d.owner != u.UID:
		return &shared.Error{Kind: shared.ErrUnsupported, Attribute: "engine",
			Message: fmt.Sprintf("the daemon is rootless and runs as uid %d: commands would be that user and not uid %d", *d.owner, u.UID),
			Hint:    fmt.Sprintf("use a daemon of uid %d, or a rootful one, by DOCKER_HOST", u.UID)}
	}
	return nil
}
