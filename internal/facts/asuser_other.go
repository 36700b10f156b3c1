//go:build unix && !linux

package facts

import "github.com/sbxhost/sbxhost/shared"

// asUser finds nothing that another user cannot search: nothing is mounted on this system.
type asUser struct{}

func becomeUser(*shared.User) (*asUser, error) { return &asUser{}, nil }

func (a *asUser) searches(string) bool { return true }

func (a *asUser) close() {}
