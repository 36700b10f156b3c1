package docker

import (
	"fmt"

	"github.com/sbxhost/sbxhost/shared"
)

// overflowUID is how the kernel shows a user that has no number here.
const overflowUID = 65534

// ownedBy refuses a rootless daemon of somebody else's: its containers have no
// number for anybody but who runs it, so commands would be that user and no other.
func (d *daemonFacts) ownedBy(u shared.User) error {
	switch {
	case !d.rootless:
		return nil
	case d.owner == nil:
		return &shared.Error{Kind: shared.ErrUnavailable, Attribute: "engine", Message: "it is not known whose the rootless daemon is, as which commands would run",
			Hint: "run sbxhost where the daemon runs, not in another user namespace, or use a rootful daemon"}
	case *d.owner != u.UID:
		return &shared.Error{Kind: shared.ErrUnsupported, Attribute: "engine",
			Message: fmt.Sprintf("the daemon is rootless and runs as uid %d: commands would be that user and not uid %d", *d.owner, u.UID),
			Hint:    fmt.Sprintf("use a daemon of uid %d, or a rootful one, by DOCKER_HOST", u.UID)}
	}
	return nil
}
