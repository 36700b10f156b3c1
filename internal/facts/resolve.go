//go:build unix

package facts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sbxhost/sbxhost/internal/env"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/scan"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// Resolve looks at the machine for a definition. Package view decides what its commands see.
func (m *Machine) Resolve(ctx context.Context, q Request) (*Resolution, error) {
	l := &q.Limits // the times belong to the command
	out := &Resolution{Copies: map[string]string{}, Spec: shared.Spec{
		Sandbox: q.Name,
		Session: q.Session,
		Options: q.Config,
		Network: view.SpecNetwork(&q.Definition),
		Home:    view.Home(m.home()), BestEffort: q.Isolation == view.IsolationBestEffort,
		Limits: shared.Limits{Memory: l.Memory, CPUs: l.CPUs, PIDs: l.PIDs, OpenFiles: l.OpenFiles, TempSize: l.TempSize, BestEffort: l.Enforce == view.EnforceBestEffort},
	}}
	if q.Filesystem == view.FilesystemHost {
		out.Spec.Filesystem = shared.FilesystemHost
	}
	if m.Owner != nil {
		out.Spec.User = new(m.Owner.User)
	}
	look := newLookup(ctx, m, nil)
	in := m.input(&q)
	if err := m.credentials(ctx, &q, out, in); err != nil {
		return nil, err
	}
	if !q.Unisolated {
		in.Substitutes = append(in.Substitutes, m.showAccount()...)
	}
	return out, m.table(in, look, out, q.OnDemand)
}

// table makes the table of a definition.
func (m *Machine) table(in *view.Input, look *lookup, out *Resolution, onDemand bool) (err error) {
	if out.View, err = view.Show(in, look); err != nil {
		return err
	}
	if onDemand && out.WantsSession {
		return ErrWantsSession
	}
	for _, name := range m.refusedToolchains {
		out.Notes = append(out.Notes, view.OriginToolchains+": "+name+" names no directory that can be shown; its toolchain is left out")
	}
	look.writable, look.trees = out.WritableSources(), out.Trees()
	if in.Filesystem == view.FilesystemHost {
		look.trees = append(look.trees, "/")
	}
	in.HostPaths = look.addSecondMounts(in.HostPaths)
	out.ShowGit()
	if !in.Unisolated {
		m.prepare(out.View, in, look)
		m.readMarks(out)
		found, err := m.search(out, look)
		if err != nil {
			return err
		}
		if err := out.Restrict(found); err != nil {
			return err
		}
		out.gitUnprotected = in.Git == view.GitFull || out.Spec.BestEffort // an engine may enforce no protection
		out.headLog = m.headLog(out, in, look)
		out.baseline = m.look(out, look, found.Trees)
		out.baseline.GitActions = look.acts(out, out.baseline.OpenRepositories)
	}
	out.Spec.Table, out.Spec.Devices = out.Table(), out.Devices
	if in.Review != "" {
		if out.Spec.Table, out.Configurations, err = out.ReviewTable(out.Spec.Table); err != nil {
			return err
		}
		out.Submodules = slices.Collect(maps.Keys(out.baseline.Submodules))
		for _, dir := range slices.Concat(out.baseline.UserRepositories, out.Submodules) {
			if l, err := look.layout(dir); err == nil && l.GitDir != "" {
				out.GitDirs = append(out.GitDirs, l.GitDir)
			}
		}
		for _, w := range look.workTrees {
			out.Submodules = append(out.Submodules, w.Linked...)
		}
	}
	if err = m.useCopies(out); err == nil && !in.Unisolated {
		m.showSettings(out)
	}
	return err
}

// AsHost returns the Spec for an engine that shows every path at its path on the host. Second spellings
// work there only by the host's own links, as the notes say.
func (r *Resolution) AsHost() (shared.Spec, []string) {
	spec := r.Spec
	var notes []string
	spec.Table = slices.Clone(spec.Table)
	for i := range spec.Table {
		e := &spec.Table[i]
		e.Source = cmp.Or(r.Copies[e.Source], e.Source)
	}
	spec.Table = slices.DeleteFunc(spec.Table, func(e shared.Entry) bool {
		// The host shows a parent there; and such an engine has its own home, and TMPDIR is the host's path.
		if e.Why == view.OriginParent || e.Path != e.Source && (e.Why == view.OriginHome || e.Why == view.OriginTemp) {
			return true
		}
		if !slices.Contains(r.Spellings, e.Path) {
			return false
		}
		if !paths.InsideAny([]string{"/tmp", "/var", "/etc", "/home"}, e.Path) { // macOS has links there, also inside
			notes = append(notes, fmt.Sprintf("%s: inside, the symlink %q does not lead to %q", e.Why, e.Path, e.Source))
		}
		return true
	})
	return spec, notes
}

// Request is the context in which a definition is resolved.
type Request struct {
	Name string
	view.Definition
	Session shared.Session
	// SessionHome is the session's home directory, a path of the host; "" leaves the home to the
	// engine.
	SessionHome string
	// Unisolated says that commands run without isolation: then nothing is searched or hidden.
	Unisolated bool
	// Planning forbids to execute a program: the token that one would print is empty.
	Planning bool
	// OnDemand says that Session has no directory yet, but can have one. If the definition wants one,
	// Resolve returns [ErrWantsSession] before it searches.
	OnDemand bool
}

// ErrWantsSession says to resolve again, with a directory for the session.
var ErrWantsSession = errors.New("the definition wants a session")

// Resolution is a definition with absolute paths.
type Resolution struct {
	*view.View
	Spec shared.Spec
	// Copies maps a copy that is a source to its original.
	Copies map[string]string
	// Configurations are files of git that commands can write, but only in a review.
	Configurations []string
	// Submodules are the gitlinks in the indexes of the user's repositories, and GitDirs the git
	// directories of these and of the repositories, some twice; both for a review.
	Submodules []string
	GitDirs    []string
	// Inject has the credentials to add to requests. They are not in Spec, which people see.
	Inject shared.Injection
	// credentialVars are the variables of all credentials, those in Inject with placeholders. No variable
	// of the command may contain one of withheldSecrets. credentialNotes name unavailable credentials.
	credentialVars  []env.Secret
	withheldSecrets []string
	credentialNotes []string
	// gitConfig is a file that git inside reads as the system's configuration, or "".
	gitConfig string
	// baseline is the state before the command; searchAgain searches for the state after it.
	baseline       baseline
	searchAgain    func() ([]scan.Found, error)
	gitUnprotected bool   // a command may change what git acts on in all repositories
	headLog        string // see [Machine.headLog]
	// lastLook is the state at the command's end, if processes of a session go on: the next command reports
	// what these change.
	lastLook            *baseline
	WatchedPaths        []WatchedPath // at the start of the command
	mark                *mark
	unreported          []string // the marks of earlier commands
	unknown             []string // the directories in which these could write
	earlierRepositories []string // the user's repositories at the last look
}

// HasLastLook reports whether the next command can report what processes of this one change. out may be
// nil.
func (out *Resolution) HasLastLook() bool { return out != nil && out.lastLook != nil }
