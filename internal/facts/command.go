//go:build unix

package facts

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/sbxhost/sbxhost/internal/env"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// HostDir is the resolved directory of a command on the host: dir, else the caller's current
// directory, else the root. dir must lie in a root of the workspace, and adds none.
func (m *Machine) HostDir(dir, current string) (string, error) {
	resolved, err := m.Workspace.ResolveDir(cmp.Or(dir, current))
	switch {
	case err == nil:
		return resolved, nil
	case dir == "":
		return m.Workspace.ResolveDir("")
	}
	return "", view.Invalid("Dir", err.Error(), "")
}

// Workdir returns the working directory for a host directory: its path inside, or itself for an
// unconfined command. It refuses a hidden one: elsewhere the command would act on other files.
func (m *Machine) Workdir(r *Resolution, dir, current string) (string, error) {
	resolved, err := m.HostDir(dir, current)
	if err != nil || r.Spec.Unconfined {
		return resolved, err
	}
	spelled := filepath.Clean(cmp.Or(dir, current))
	if e, host := shared.Cover(r.Spec.Table, spelled); e != nil && e.Access.Shows() && host == resolved {
		return spelled, nil // the caller's spelling
	}
	path, ok := view.InsidePath(&r.Spec, resolved)
	if !ok {
		return "", view.Invalid("Dir", hostpath.Quote(resolved)+" is hidden in the sandbox", "")
	}
	return path, nil
}

// MachinesTemp is the note for an unconfined command if /tmp inside is the session's.
const MachinesTemp = view.OriginTemp + ": without a sandbox /tmp is this machine's; the session's is TMPDIR"

// EnvInput is the input for a sandboxed command's environment, without the command's own variables;
// environ is the caller's. With planning it executes no program.
func (m *Machine) EnvInput(ctx context.Context, r *Resolution, d *view.Definition, environ []string, planning bool) (in env.Input, notes []string) {
	spec := &r.Spec
	in = env.Input{
		Caller: environ, Toolchains: r.Variables, Passthrough: d.EnvPassthrough,
		Workspace: m.Env, Definition: d.Env, Unset: d.EnvUnset,
		OtherWorktrees: r.ReadOnlyWorktrees && !spec.Unconfined, SharedRepository: r.SharedRepository && !spec.Unconfined, GitConfig: r.gitConfig,
		Credentials: r.credentialVars, Withheld: r.withheldSecrets,
		Root: m.uid() == 0 && !spec.Unconfined,
	}
	notes = slices.Clone(r.credentialNotes)
	if !planning {
		var err error
		if in.Credentials, err = m.passToken(ctx, in.Credentials); err != nil {
			notes = append(notes, fmt.Sprintf("%s: %s: %v", view.OriginInject, view.CredentialGitHubCLI, err))
		}
	}
	if spec.Unconfined {
		if _, injected := view.SplitCredentials(d, m.Sets()); injected != nil {
			notes = append(notes, view.OriginInject+": without a sandbox nothing adds credentials to requests, so the command is not authenticated")
		}
		if in.Temp = m.Workspace.TempAlias(); in.Temp != "" {
			notes = append(notes, MachinesTemp)
		}
		in.UsablePath = func(dir string) bool {
			way := Follow(dir)
			return way.Err == nil && !slices.ContainsFunc(way.Links, paths.ProcessSpecific) && m.Written(filepath.Clean(dir)) == "" && m.Written(way.End) == "" && !r.Creatable(way.End)
		}
	} else {
		in.UsablePath = func(dir string) bool { return r.UsableInPath(spec, dir) }
		in.UsableTemp = func(dir string) bool {
			_, visible := view.InsidePath(spec, filepath.Clean(dir))
			return visible || filepath.Clean(dir) == "/tmp"
		}
		if in.Sandbox = spec.Sandbox; spec.Home != m.home() {
			in.Home = spec.Home
		}
	}
	if o := m.Owner; o != nil {
		in.User = map[string]string{"HOME": o.Home, "USER": o.Name, "LOGNAME": o.Name}
	}
	return in, notes
}
