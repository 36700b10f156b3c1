package cmdengine

import (
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
)

// identity is the user of this process.
type identity struct {
	uid, gid uint32
	groups   []uint32
}

func processIdentity() identity {
	id := identity{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
	groups, err := os.Getgroups()
	if err == nil {
		for _, g := range groups {
			id.groups = append(id.groups, uint32(g))
		}
	}
	return id
}

// credentialFor returns the credential for a process that must run as u; nil if this process
// already does.
func credentialFor(u *shared.User, self identity) (*syscall.Credential, error) {
	if u == nil {
		return nil, nil
	}
	if self.uid == 0 {
		// Set groups even if there are none: root's own must not stay.
		return &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: slices.Clone(u.Groups)}, nil
	}
	if u.UID == self.uid && u.GID == self.gid && slices.Equal(supplementary(u.Groups, u.GID), supplementary(self.groups, self.gid)) {
		return nil, nil
	}
	return nil, &shared.Error{
		Kind: shared.ErrDenied, Attribute: "run_as",
		Message: fmt.Sprintf("the engine runs as uid %d, gid %d and cannot become uid %d, gid %d with groups %v", self.uid, self.gid, u.UID, u.GID, u.Groups),
		Hint:    "leave it out, or run as root",
	}
}

// supplementary is the set of groups without the primary one, which systems list or omit.
func supplementary(groups []uint32, primary uint32) []uint32 {
	g := slices.DeleteFunc(slices.Clone(groups), func(g uint32) bool { return g == primary })
	slices.Sort(g)
	return slices.Compact(g)
}
