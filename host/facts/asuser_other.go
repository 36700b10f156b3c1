//go:build unix && !linux

package facts

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
)

// asUser goes by modes alone: a thread cannot take another user's rights here.
type asUser struct{ user *shared.User }

func becomeUser(u *shared.User) (*asUser, error) { return &asUser{u}, nil }

// searches reports whether the user may search a directory and all above it.
func (a *asUser) searches(dir string) bool {
	for ; dir != "/"; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			continue
		}
		st, bit := info.Sys().(*syscall.Stat_t), os.FileMode(0o001)
		switch {
		case st.Uid == a.user.UID:
			bit = 0o100
		case st.Gid == a.user.GID || slices.Contains(a.user.Groups, st.Gid):
			bit = 0o010
		}
		if info.Mode()&bit == 0 {
			return false
		}
	}
	return true
}

func (a *asUser) close() {}
