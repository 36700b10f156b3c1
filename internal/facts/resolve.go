//go:build unix

package facts

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sbxhost/sbxhost/internal/env"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/scan"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// Request is what a definition is resolved for.
type Request struct {
	Name string
	view.Definition
	Session shared.Session
	// SessionHome is the session's home directory, a path of the host; "" leaves the
	// home to the engine.
	SessionHome string
	// Unisolated says that commands run without isolation, so that nothing is searched
	// or hidden.
	Unisolated bool
	// Planning says that no program is run to find out; see Machine.Credentials.
	Planning bool
}

// Resolved is a definition carried through to absolute paths.
type Resolved struct {
	*view.View
	Spec shared.Spec
	// Copies says of a source that is a copy what it stands for.
	Copies map[string]string
	// Configurations are files of git's that commands write to in a review alone.
	Configurations []string
	// Submodules are the gitlinks in the indexes of the user's repositories, and WorkTrees where
	// these repositories are checked out, by their git directories; for a review.
	Submodules []string
	WorkTrees  map[string]string
	// Inject has the credentials that are put into requests. Spec lacks them: it is shown to people.
	Inject shared.Injection
	// instead are variables that commands get for them, and withheld is in none.
	instead         []env.Secret
	withheldSecrets []shared.Secret
	// gitConfig is a file that git inside reads in the place of the system's; "" is none.
	gitConfig string
	// baseline is what was there, and searchAgain looks once more.
	baseline    baseline
	searchAgain func() (*scan.Result, error)
	allOpen     bool   // a command may change what git acts on in all repositories
	headLog     string // see [Machine.headLog]
	// lastLook is what was there when it was last looked, for what processes of a session that
	// outlive their command make until the next one.
	lastLook   *baseline
	afterMark  *mark
	unreported []*mark  // of earlier commands, of which nothing was told
	owned      []string // repositories that were the user's then and are, and that this definition does not guard
	lost       []string // and those that are the user's no more
	mark       *mark
}

// Resolve looks at the machine for a definition, and has package view decide what
// its commands see.
func (m *Machine) Resolve(ctx context.Context, q Request) (*Resolved, error) {
	out := &Resolved{Spec: shared.Spec{
		Sandbox: q.Name,
		Session: q.Session,
		Options: q.Config,
		Home:    view.Home(m.home()), BestEffort: q.Isolation == view.IsolationBestEffort,
		Limits: q.Limits.Spec(),
	}}
	if q.Filesystem == view.FilesystemHost {
		out.Spec.Filesystem = shared.FilesystemHost
	}
	network, notes := q.SpecNetwork()
	out.Spec.Network = network
	if m.Owner != nil {
		user := m.Owner.User
		out.Spec.User = &user
	}
	if err := q.CheckCredentials(m.Sets()); err != nil {
		return nil, err
	}
	look := newLookup(ctx, m)
	in := m.input(&q, look)
	if !q.Unisolated {
		more, err := m.inject(ctx, &q, out, in)
		if err != nil {
			return nil, err
		}
		notes = append(notes, more...)
		in.Accounts = m.showAccounts(ctx, q.Planning)
	}
	err := m.table(in, look, out)
	if out.View != nil {
		out.Notes = append(out.Notes, notes...)
	}
	return out, cmp.Or(err, look.close())
}

// table makes the table of a definition.
func (m *Machine) table(in *view.Input, look *lookup, out *Resolved) (err error) {
	if out.View, err = view.Show(in, look); err != nil {
		return err
	}
	if m.toolchains != nil {
		for _, name := range m.toolchains.refused {
			out.Notes = append(out.Notes, view.OriginToolchains+": "+name+" names no directory that can be shown; its toolchain is left out")
		}
	}
	out.ShowGit()
	if !in.Unisolated {
		if err := m.prepare(out.View, in, look); err != nil {
			return err
		}
		if err := out.CheckSessions(); err != nil {
			return err
		}
		m.readMarks(out)
		found, told, err := m.search(out, look)
		if err != nil {
			return err
		}
		if err := out.Restrict(found); err != nil {
			return err
		}
		out.allOpen = in.Git == view.GitFull || out.Spec.BestEffort // nothing may protect it then
		out.headLog = m.headLog(out, in, &look.layouts)
		for _, k := range out.unreported {
			out.wereOwn(look, k.GuardedRepositories)
		}
		out.baseline = m.look(out, look, told)
		out.leaveUntold()
	}
	out.Spec.Table, out.Spec.Devices = out.Table(), out.Devices
	if in.Review != "" {
		if out.Spec.Table, out.Configurations, err = out.Reviewed(out.Spec.Table); err != nil {
			return err
		}
		out.Notes = append(out.Notes, m.mountsBeneath()...)
		out.Submodules, out.WorkTrees = slices.Collect(maps.Keys(out.baseline.Submodules)), map[string]string{}
		for _, dir := range slices.Concat(out.baseline.UserRepositories, out.Submodules) {
			if l, err := look.layouts.of(dir); err == nil && l.GitDir != "" {
				out.WorkTrees[l.GitDir] = dir
			}
		}
	}
	m.useCopies(out)
	if !in.Unisolated {
		m.showSettings(out)
	}
	return m.trustCopied(in, out)
}

// AsHost gives the Spec for an engine that shows every path where the host has
// it, and what a person should know of that: the host's own links lead to
// second spellings there, or nothing does.
func (r *Resolved) AsHost() (shared.Spec, []string) {
	spec := r.Spec
	var notes []string
	spec.Table = slices.Clone(spec.Table)
	for i := range spec.Table {
		e := &spec.Table[i]
		e.Source = cmp.Or(r.Copies[e.Source], e.Source)
	}
	spec.Table = slices.DeleteFunc(spec.Table, func(e shared.Entry) bool {
		if e.Why == view.OriginAbove {
			return true // it is the host's there
		}
		if e.Path != e.Source && (e.Why == view.OriginHome || e.Why == view.OriginTemp) {
			return true // such an engine keeps a home of its own, and TMPDIR is the host's path
		}
		if !slices.Contains(r.Spellings, e.Path) {
			return false
		}
		if !paths.InsideAny(systemLinks[:], e.Path) {
			notes = append(notes, fmt.Sprintf("%s: inside, the symlink %q does not lead to %q", e.Why, e.Path, e.Source))
		}
		return true
	})
	return spec, notes
}

// systemLinks are the links at the top of a macOS, which work inside as well.
var systemLinks = [...]string{"/tmp", "/var", "/etc", "/home"}
