package cmdengine

import (
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
)

// processUser is the user of this process.
func processUser() shared.User {
	u := shared.User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	groups, _ := os.Getgroups()
	for _, g := range groups {
		u.Groups = append(u.Groups, uint32(g))
	}
	return u
}

// credentialFor returns the credential for a process that must run as u; nil if this process
// already does.
func credentialFor(u *shared.User, self shared.User) (*syscall.Credential, error) {
	if u == nil {
		return nil, nil
	}
	if self.UID == 0 {
		// Set groups even if there are none: root's own must not stay.
		return &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: slices.Clone(u.Groups)}, nil
	}
	if u.UID == self.UID && u.GID == self.GID && slices.Equal(supplementary(u), supplementary(&self)) {
		return nil, nil
	}
	return nil, &shared.Error{
		Kind: shared.ErrDenied, Attribute: "run_as",
		Message: fmt.Sprintf("the engine runs as uid %d, gid %d and cannot become uid %d, gid %d with groups %v", self.UID, self.GID, u.UID, u.GID, u.Groups),
		Hint:    "leave it out, or run as root",
	}
}

// supplementary is the set of a user's groups without the primary one, which systems list or omit.
func supplementary(u *shared.User) []uint32 {
	g := slices.DeleteFunc(slices.Clone(u.Groups), func(g uint32) bool { return g == u.GID })
	slices.Sort(g)
	return slices.Compact(g)
}
