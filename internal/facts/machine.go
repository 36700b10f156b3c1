//go:build unix

package facts

import (
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/scan"
	"github.com/sbxhost/sbxhost/internal/stubs"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/workspace"
)

// Config makes a Machine.
type Config struct {
	Caller    Caller
	Owner     *Owner // the commands' user, if it is not the caller
	Workspace *workspace.Workspace
	// Discovered says that nobody named the workspace's root.
	Discovered bool
	// SessionBases are directories of sessions, of this Host and others.
	SessionBases []string
	// ReviewBases are directories of reviews.
	ReviewBases []string
	// Toolchains shows directories of well-known tools.
	Toolchains    bool
	HideSensitive bool
	// Env is the workspace's.
	Env map[string]string
	// Credentials are sets that are not built in, by name.
	Credentials map[string]view.Credential
	// Stubs hold missing paths.
	Stubs *stubs.Registry

	// HostPaths is what the host itself obeys, runs or stores: see HostPaths.All.
	HostPaths []view.HostPath

	// Written returns the writable directory that contains a path, in words; "" if none does.
	Written func(p string) (where string)
}

// Machine is what commands of one Host find on this machine.
type Machine struct {
	Config
	Outer             []string // the repositories around a root that nobody named
	gitWaits          bool     // git has started this program
	toolchains        []view.ToolDir
	refusedToolchains []string // their refused variables
	// addOns are directories of additional programs and data, with settings and sockets, in the
	// operating system's view. The rest of that view belongs to the distributor, or is too much to
	// search for each command.
	addOns             []string
	scanners           scanners
	ghToken            ghToken
	certificates       certificates
	renewedCredentials atomic.Pointer[renewedCredentials]
	mark               atomic.Pointer[mark] // for the next command
}

// renewedCredentials are the values that Renew set.
type renewedCredentials struct {
	sets    map[string]view.Credential
	environ []string
}

// Renew replaces Config.Credentials by sets, and the caller's GH_TOKEN and GITHUB_TOKEN by those that
// environ has.
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

// token is the value of GH_TOKEN or GITHUB_TOKEN, or "".
func (m *Machine) token(name string) string {
	if r := m.renewedCredentials.Load(); r != nil {
		if value, _ := valueIn(r.environ, name); value != "" {
			return value
		}
	}
	return m.Caller.Getenv(name)
}

// New makes a Machine, and finds what is the same for all commands.
func New(c Config) *Machine {
	m := &Machine{Config: c, addOns: []string{"/opt"}}
	_, m.gitWaits = c.Caller.LookupEnv("GIT_EXEC_PATH") // git sets it for all that it starts
	if c.Discovered {
		m.Outer = c.Workspace.Outer()
	}
	if c.Toolchains {
		m.findToolchains()
	}
	return m
}

// Close removes the files of certificates, and the mark for a next command.
func (m *Machine) Close() {
	if k := m.mark.Swap(noMark); k != nil && k != noMark {
		k.end(true)
	}
	m.certificates.copies.Range(func(file, _ any) bool {
		os.Remove(file.(string))
		return true
	})
}

// OnlyCaller is a machine that knows only the caller.
func OnlyCaller(c Caller) *Machine {
	return &Machine{Config: Config{Caller: c, Workspace: &workspace.Workspace{}, Written: func(string) string { return "" }}}
}

// home is the path of the command's home directory.
func (m *Machine) home() string {
	if m.Owner != nil {
		return m.Owner.Home
	}
	return m.Caller.Home
}

// uid is the commands' user.
func (m *Machine) uid() uint32 {
	if m.Owner != nil {
		return m.Owner.User.UID
	}
	return uint32(m.Caller.UID)
}

// Programs finds programs to run outside of sandboxes.
func (m *Machine) Programs() *hostpath.Programs {
	return &hostpath.Programs{Path: m.Caller.Getenv("PATH"), Written: m.Written}
}

// scanners keeps results of searches for the next commands. The zero value is empty.
type scanners struct {
	mu    sync.Mutex
	known map[string]*scan.Scanner
}

// scanner returns the Scanner for a query with rules in directories. key stands for the rest of the query.
func (s *scanners) scanner(rules []view.Rule, key string, q scan.Query, dirs []string) *scan.Scanner {
	key += "\x00\x00" + strings.Join(dirs, "\x00") + "\x00"
	for _, rule := range rules {
		key += "\x00" + rule.Pattern.String()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[key] == nil {
		if s.known == nil || len(s.known) >= 256 { // symlinks in patterns can lead elsewhere for each command
			s.known = map[string]*scan.Scanner{}
		}
		q.Set = view.SetOf(rules)
		s.known[key] = scan.New(q, dirs...)
	}
	return s.known[key]
}
