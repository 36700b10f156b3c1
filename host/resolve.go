package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/sbxhost/sbxhost/glob"
	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/paths"
	"github.com/sbxhost/sbxhost/scan"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// caller is what a Host knows of the program and person it works for.
type caller struct {
	uid     int
	home    string   // absolute, or empty
	environ []string // "name=value"
}

// resolver turns definitions into Specs. It reads the file system and changes
// nothing of it but what hideSessions says, and that it makes the recorded where
// commands could.
type resolver struct {
	ws           *workspace.Workspace
	caller       caller
	owner        *owner        // whom commands run as, where that is not the caller
	outer        []string      // what else would be the workspace's root, but for a .git below
	protected    []string      // host files that are never writable inside
	relied       []view.Relied // what is never led elsewhere from inside
	recorded     []record      // of the host's decisions, never writable inside
	programs     []string      // executables that this host may run outside of sandboxes
	own          []view.Own    // what is never created inside, nor written
	engines      []view.Relied // where engines come from that are not installed with this program
	session      shared.Session
	sessionHome  string    // the session's home directory, a host path; "" leaves it to the engine
	sessionBases []string  // what holds sessions, of this host and others
	toolchains   *toolList // nil: none is shown

	sensitive Sensitive
	// addOns are where people put programs and data of their own, with settings and
	// sockets, in the operating system's view. The rest of that is its
	// distributor's, or too much to be searched for each command.
	addOns []string
	// served are further ones, of the host's view alone.
	served     []string
	control    []string              // further control sockets
	scanners   *scanners             // nil remembers nothing
	unisolated func(Definition) bool // nil: none is
}

// unconfined reports whether commands of a definition are known to run without
// isolation, so that nothing of what follows matters.
func (r *resolver) unconfined(d Definition) bool { return r.unisolated != nil && r.unisolated(d) }

// owner is the user a root caller's commands run as.
type owner struct {
	user shared.User
	name string
	home string
}

// resolved is a definition carried through to absolute paths.
type resolved struct {
	*view.View
	spec  shared.Spec
	notes []string // what a person should know; see view.View.Notes
	// before is what was there, and again looks once more.
	before before
	again  func() (*scan.Result, error)
	// instead says of a source that is a copy what it stands for.
	instead map[string]string
}

func (r *resolver) resolve(ctx context.Context, name string, d Definition) (*resolved, error) {
	out := &resolved{spec: shared.Spec{
		Sandbox: name,
		Session: r.session,
		Options: d.Config,
		Home:    view.Home(r.home()),
		Limits: shared.Limits{
			Memory: d.Limits.Memory, CPUs: d.Limits.CPUs, PIDs: d.Limits.PIDs,
			OpenFiles: d.Limits.OpenFiles, TempSize: d.Limits.TempSize,
		},
	}}
	spec := &out.spec
	if d.Filesystem == "host" {
		spec.Filesystem = shared.FilesystemHost
	}
	if d.Network {
		spec.Network.Mode = shared.NetworkHost
	}
	switch d.Limits.Enforce {
	case "", "required":
	case "best_effort":
		spec.Limits.BestEffort = true
	default:
		return nil, attributeError("limits.enforce", fmt.Sprintf("unknown value %q", d.Limits.Enforce), `use "required" or "best_effort"`)
	}
	if r.owner != nil {
		user := r.owner.user
		spec.User = &user
	}
	if err := checkCredentials(d.Credentials); err != nil {
		return nil, err
	}
	in, facts := r.input(d), newFacts(ctx, r)
	err := r.table(in, facts, out)
	return out, cmp.Or(err, facts.close())
}

// table makes the table of a definition.
func (r *resolver) table(in *view.Input, facts *facts, out *resolved) (err error) {
	if out.View, err = view.Show(in, facts); err != nil {
		return err
	}
	if r.toolchains != nil {
		for _, name := range r.toolchains.refused {
			out.notes = append(out.notes, view.OriginToolchains+": "+name+" names no directory that can be shown; its toolchain is left out")
		}
	}
	out.ShowGit()
	if !in.Unisolated {
		if err := r.prepare(out.View, in, facts); err != nil {
			return err
		}
		if err := out.CheckSessions(); err != nil {
			return err
		}
		found, err := r.search(out)
		if err != nil {
			return err
		}
		if err := out.Guard(found); err != nil {
			return err
		}
		if in.Git == "full" {
			out.before.acting = r.ws.Acting(facts.ctx, out.before.repositories, r.owner.gitUser())
		}
	}
	out.notes = append(out.notes, out.Notes...)
	out.spec.Table, out.spec.Deny, out.spec.Protect = out.Table(), out.Deny, out.Protect
	r.settle(out)
	return nil
}

// search looks through what a definition shows.
func (r *resolver) search(out *resolved) (found *view.Found, err error) {
	found = &view.Found{Elsewhere: &scan.Result{}, AddOns: &scan.Result{}, Protected: &scan.Result{}}
	if found.Deny, found.Protect, err = out.Rules(); err != nil {
		return nil, err
	}
	trees := slices.Clip(out.Trees())
	q := scan.Query{Sockets: true, Repositories: true, Name: r.sensitive.Matches, Asked: view.ActsOnHost}
	shown := trees
	out.again = func() (*scan.Result, error) { return r.scanners.of(found.Deny, "trees", q).Scan(shown...) }
	if found.Trees, err = out.again(); err != nil {
		return nil, searchError(err)
	}
	out.before = before{repositories: repositoryPaths(found.Trees), instructions: instructionPaths(found.Trees)}
	out.before.pending = pending(out.before.repositories)
	if elsewhere := view.Elsewhere(found.Deny, trees); len(elsewhere) > 0 {
		if found.Elsewhere, err = r.scanners.of(found.Deny, "elsewhere", scan.Query{}).Scan(elsewhere...); err != nil {
			return nil, searchError(err)
		}
	}
	dirs := r.addOns
	if out.spec.Filesystem == shared.FilesystemHost {
		dirs = slices.Concat(r.addOns, r.served)
		found.Sockets = listedSockets()
	}
	var addOns []string
	for _, dir := range dirs {
		if way := follow("/", dir); way.Kind == view.Directory && !slices.ContainsFunc(trees, func(t string) bool { return paths.Inside(t, way.End) }) {
			addOns = append(addOns, way.End)
		}
	}
	if len(addOns) > 0 {
		if found.AddOns, err = r.scanners.of(nil, "add-ons", scan.Query{Sockets: true, Name: r.sensitive.Matches}).Scan(addOns...); err != nil {
			return nil, searchError(err)
		}
	}
	// A look of its own: what lies beneath a match is not looked at, and there
	// can be something to hide beneath what is to be protected.
	if found.Linked, err = out.Linked(found.Trees); err != nil {
		return nil, err
	}
	rules := slices.Concat(found.Protect, found.Linked)
	for _, rule := range found.Linked {
		if !slices.ContainsFunc(trees, func(t string) bool { return paths.Inside(t, rule.Literal) }) {
			trees = append(trees, rule.Literal)
		}
	}
	if len(rules) > 0 {
		if found.Protected, err = r.scanners.of(rules, "protect", scan.Query{}).Scan(trees...); err != nil {
			return nil, searchError(err)
		}
	}
	return found, nil
}

// searchError says of a search that could not be made what it was for.
func searchError(err error) error {
	if hint := shortageHint(err); hint != "" {
		return &shared.Error{Kind: shared.ErrUnavailable, Message: "what is to be hidden and protected cannot be looked for: " + err.Error(), Hint: hint}
	}
	e := &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "deny_paths", Message: err.Error()}
	if errors.Is(err, scan.ErrTooLarge) {
		e.Hint = "show less: bind the directories that are needed, or choose a smaller workspace"
	}
	return e
}

// shortageHint is what to do about a shortage of descriptors, processes or memory,
// which no definition is the cause of, or "" where err is none.
func shortageHint(err error) string {
	switch errno, _ := errors.AsType[syscall.Errno](err); errno {
	case syscall.EMFILE, syscall.ENFILE:
		return "let this process have more files open: ulimit -n"
	case syscall.ENOMEM, syscall.EAGAIN:
		return "try again when less runs here, or raise the limits of memory and processes"
	}
	return ""
}

// remarks are notes for people who ask.
func (r *resolved) remarks() []string {
	if r.spec.Unconfined {
		return nil
	}
	return r.Remarks
}

// home is the path of the command's home directory.
func (r *resolver) home() string {
	if r.owner != nil {
		return r.owner.home
	}
	return r.caller.home
}

// asHost gives the Spec for an engine that shows every path where the host has
// it, and what a person should know of that: the host's own links lead to
// second spellings there, or nothing does.
func (r *resolved) asHost() (shared.Spec, []string) {
	spec := r.spec
	var notes []string
	spec.Table = slices.Clone(spec.Table)
	for i := range spec.Table {
		e := &spec.Table[i]
		e.Source = cmp.Or(r.instead[e.Source], e.Source)
	}
	spec.Table = slices.DeleteFunc(spec.Table, func(e shared.Entry) bool {
		if e.Why == view.OriginAbove {
			return true // it is the host's there
		}
		if !slices.Contains(r.Spellings, e.Path) {
			return false
		}
		if !slices.ContainsFunc(systemLinks[:], func(link string) bool { return paths.Inside(link, e.Path) }) {
			notes = append(notes, fmt.Sprintf("%s: inside, the symlink %q does not lead to %q", e.Why, e.Path, e.Source))
		}
		return true
	})
	return spec, notes
}

// systemLinks are the links at the top of a macOS, which work inside as well.
var systemLinks = [...]string{"/tmp", "/var", "/etc", "/home"}

// outerRoots are the top levels of the repositories around a root that was
// discovered, and not said.
func outerRoots(root, home string) (outer []string) {
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

// scanners keeps what is known of trees from one command to the next. The zero
// value is empty; nil remembers nothing.
type scanners struct {
	memory *scan.Memory // of former processes
	mu     sync.Mutex
	known  map[string]*scan.Scanner
}

// of gives the Scanner for those rules. key stands for what else q asks.
func (s *scanners) of(rules []view.Rule, key string, q scan.Query) *scan.Scanner {
	list := make([]*glob.Pattern, len(rules))
	for i, rule := range rules {
		list[i] = rule.Pattern
		key += "\x00" + rule.Pattern.String()
	}
	q.Set = glob.NewSet(list...)
	if s == nil {
		return scan.New(q)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[key] == nil {
		if s.known == nil || len(s.known) >= maxScanners {
			s.known = map[string]*scan.Scanner{}
		}
		s.known[key] = s.memory.New(q)
	}
	return s.known[key]
}

// maxScanners bounds what is remembered: symlinks in patterns can lead elsewhere
// for every command.
const maxScanners = 64

// lookupOwner finds whom a root caller's commands run as: the owner of the
// workspace, so that what they create is the user's. It is nil for any other
// caller, who can only be himself.
func lookupOwner(ws *workspace.Workspace, c caller) *owner {
	uid, gid := ws.Owner()
	if c.uid != 0 || uid == 0 {
		return nil
	}
	o := &owner{user: shared.User{UID: uid, GID: gid}}
	account, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return o // a uid without an account, as in containers: no home, no name
	}
	o.name, o.home = account.Username, account.HomeDir
	if n, err := strconv.ParseUint(account.Gid, 10, 32); err == nil {
		o.user.GID = uint32(n)
	}
	if groups, err := account.GroupIds(); err == nil {
		for _, g := range groups {
			if n, err := strconv.ParseUint(g, 10, 32); err == nil {
				o.user.Groups = append(o.user.Groups, uint32(n))
			}
		}
	}
	return o
}
