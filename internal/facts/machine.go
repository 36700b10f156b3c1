//go:build unix

package facts

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/sbxhost/sbxhost/internal/sessiondir"
	"github.com/sbxhost/sbxhost/internal/stubs"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// Owner is the user that a root caller's commands run as.
type Owner struct {
	User shared.User
	Name string // empty for a uid without an account
	Home string // likewise
}

// LookupOwner finds whom a root caller's commands run as: the owner of the
// workspace, so that what they create is the user's. It is nil for any other
// caller, who can only be himself.
func LookupOwner(ws *workspace.Workspace, c *Caller) *Owner {
	uid, gid := ws.Owner()
	if c.UID != 0 || uid == 0 {
		return nil
	}
	o := &Owner{User: shared.User{UID: uid, GID: gid}}
	account, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		// Without an account at all, as in containers, there is neither a home nor a name.
		o.lookElsewhere(func(p string) string {
			_, dir := (&Writable{Roots: OnlyWritable(ws)}).First([]string{p})
			return dir
		})
		return o
	}
	o.Name, o.Home = account.Username, account.HomeDir
	if n, err := strconv.ParseUint(account.Gid, 10, 32); err == nil {
		o.User.GID = uint32(n)
	}
	if groups, err := account.GroupIds(); err == nil {
		for _, g := range groups {
			if n, err := strconv.ParseUint(g, 10, 32); err == nil {
				o.User.Groups = append(o.User.Groups, uint32(n))
			}
		}
	}
	return o
}

// ForFiles is who is to own what is made for commands, nil for the caller.
func (o *Owner) ForFiles() *sessiondir.User {
	if o == nil {
		return nil
	}
	return &sessiondir.User{UID: o.User.UID, GID: o.User.GID}
}

// HomeDir is the owner's home, "" where there is none.
func (o *Owner) HomeDir() string {
	if o == nil {
		return ""
	}
	return o.Home
}

// gitUser is whom git runs as, nil for the caller.
func (o *Owner) gitUser() *workspace.User {
	if o == nil {
		return nil
	}
	return &workspace.User{UID: o.User.UID, GID: o.User.GID, Groups: o.User.Groups, Home: o.Home}
}

// Config is what a Machine is told.
type Config struct {
	Caller    Caller
	Owner     *Owner // whom commands run as, where that is not the caller
	Workspace *workspace.Workspace
	// Discovered says that nobody has named the workspace's root.
	Discovered bool
	// SessionBases are directories that hold sessions, of this Host and others.
	SessionBases []string
	// ReviewBases are directories that hold reviews.
	ReviewBases []string
	// Toolchains says that those of well-known tools are shown.
	Toolchains    bool
	HideSensitive bool
	// Env is the workspace's; nil means that of the git identity.
	Env map[string]string
	// Credentials are sets that are not built in, by name.
	Credentials map[string]view.Credential
	// Stubs hold the places of what does not exist.
	Stubs *stubs.Registry

	// HostPaths is what the host itself obeys, runs or remembers: see HostPaths.All.
	HostPaths []view.HostPath

	// CommandsWrite gives the first of some paths that lies where commands can write,
	// and what that is; "" where none does.
	CommandsWrite func(list []string) (p, dir string)
	Logger        hclog.Logger
}

// Machine is what commands of one Host find on this machine.
type Machine struct {
	Config
	outer      []string  // what else would be the workspace's root, but for a .git below
	toolchains *toolList // nil: none is shown
	// addOns are where people put programs and data of their own, with settings and
	// sockets, in the operating system's view. The rest of that is its
	// distributor's, or too much to be searched for each command.
	addOns []string
	// served are further ones, of the host's view alone.
	served             []string
	scanners           scanners
	ghToken            ghToken
	trusted            authorities
	accounts           accounts
	renewedCredentials atomic.Pointer[renewedCredentials]
}

// renewedCredentials are credentials that have other values than when the Machine was made.
type renewedCredentials struct {
	sets    map[string]view.Credential
	environ []string
}

// Renew has sets take the place of Config.Credentials, and each of GH_TOKEN and GITHUB_TOKEN that
// environ has that of the caller's.
func (m *Machine) Renew(sets map[string]view.Credential, environ []string) {
	m.renewedCredentials.Store(&renewedCredentials{sets, environ})
}

// Sets are the credentials that are not built in.
func (m *Machine) Sets() map[string]view.Credential {
	if r := m.renewedCredentials.Load(); r != nil {
		return r.sets
	}
	return m.Config.Credentials
}

// token is the value of one of tokenVariables; "" if it is not set.
func (m *Machine) token(name string) string {
	if r := m.renewedCredentials.Load(); r != nil {
		if value, _ := valueIn(r.environ, name); value != "" {
			return value
		}
	}
	value, _ := m.Caller.LookupEnv(name)
	return value
}

// New makes a Machine, and looks for what is the same for all commands.
func New(c Config) *Machine {
	m := &Machine{Config: c, addOns: []string{"/opt"}, served: []string{"/srv"}}
	if c.Discovered {
		m.outer = OuterRoots(c.Workspace.Root(), c.Caller.Home)
	}
	if c.Toolchains {
		m.toolchains = findToolchains(&c.Caller, c.Owner)
	}
	return m
}

// OnlyCaller is a machine of which nothing but the caller is known.
func OnlyCaller(c Caller) *Machine {
	return &Machine{Config: Config{Caller: c, Workspace: &workspace.Workspace{}}}
}

// Outer are the repositories around a root that nobody has named.
func (m *Machine) Outer() []string { return m.outer }

// home is the path of the command's home directory.
func (m *Machine) home() string {
	if m.Owner != nil {
		return m.Owner.Home
	}
	return m.Caller.Home
}

// OuterRoots are the top levels of the repositories around a root that was
// discovered, and not said.
func OuterRoots(root, home string) (outer []string) {
	for dir := filepath.Dir(root); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		found, err := workspace.Discover(dir, home)
		if err != nil {
			return outer
		}
		if _, err := os.Lstat(filepath.Join(found, ".git")); err != nil {
			return outer
		}
		outer, dir = append(outer, found), found
	}
	return outer
}
