package cmdengine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/sbxhost/sbxhost/shared"
)

// Environ makes a [Config.Environ]: "NAME=value" as it is, and of a NAME the
// engine's own variable, where it has that.
func Environ(variables ...string) []string {
	env := []string{}
	for _, v := range variables {
		if strings.Contains(v, "=") {
			env = append(env, v)
		} else if value, ok := os.LookupEnv(v); ok {
			env = append(env, v+"="+value)
		}
	}
	return env
}

// Trial is a [Config.Probe] that runs a command to its end, with that environment. The engine is
// ready if the command exits with 0; else what it said is the reason, and fix
// what helps.
func Trial(fix string, env []string, path string, args ...string) func(context.Context) (shared.Probe, error) {
	return func(ctx context.Context) (shared.Probe, error) {
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Env = append([]string{}, env...) // nil would be the engine's own
		out, err := cmd.CombinedOutput()
		if ctx.Err() != nil {
			return shared.Probe{}, ctx.Err()
		}
		if err != nil {
			return shared.Probe{Reason: fmt.Sprintf("%s: %v%s", path, err, said(string(out))), Fix: fix}, nil
		}
		return shared.Probe{Ready: true}, nil
	}
}

// Again is a [Config.Diagnose] for a launcher that now and then fails by no fault of
// the command's: it is started once more, if it has said one of the texts.
func Again(texts ...string) func(context.Context, string, *syscall.WaitStatus) error {
	return func(_ context.Context, stderr string, _ *syscall.WaitStatus) error {
		for _, text := range texts {
			if strings.Contains(stderr, text) {
				return ErrAgain
			}
		}
		return nil
	}
}

// View gives what a launcher is to mount that mounts by path, as container CLIs do: a
// Spec's Mounts and, as [shared.Private], its Home, /tmp and /var/tmp, those
// first that others lie in. It looks at the host's files as they are, so it is for
// Launch, with the command's masks, and for Open, with none, to refuse early. The
// errors are ErrInvalidSpec and name what asked for the path.
//
//   - A path with one of the characters in odd is refused, since the launcher
//     would read it as two, and so is one that is not UTF-8, which such launchers
//     pass on as another.
//   - A source that is not there is refused, and so is one that leads through a
//     symlink: the host has resolved it, so that the symlink has been put there
//     since, by a command perhaps, to be shown something else.
//   - A destination inside another mount must be there. The launcher would make
//     it, and leave it on the host.
//   - The directories between a writable mount and what is mounted or masked in
//     it are mounted on themselves. A command could else rename them, and put
//     what it likes in the place of what it may not write.
//
// A source that is swapped between this look and the mount is not found out:
// [shared.FeatureSourceFD] is not to be claimed.
func View(spec *shared.Spec, masks []shared.Mask, odd string) ([]shared.Entry, error) {
	view := slices.Clone(spec.Table)
	add := func(m shared.Entry) {
		if m.Path != "" && !slices.ContainsFunc(view, func(v shared.Entry) bool { return v.Path == m.Path }) {
			view = append(view, m)
		}
	}
	// place is where on the host a destination inside of under lies.
	pin := func(under *shared.Entry, destination, place, origin string) {
		for under.Access == shared.ReadWrite {
			if destination, place = path.Dir(destination), path.Dir(place); destination == under.Path {
				return
			}
			add(shared.Entry{Source: place, Path: destination, Access: shared.ReadWrite, Why: origin})
		}
	}
	for _, m := range spec.Table {
		if m.Access != shared.Private {
			if to, err := filepath.EvalSymlinks(m.Source); err != nil {
				return nil, viewError(m.Why, "%v", err)
			} else if to != m.Source {
				return nil, viewError(m.Why, "%q has become a symlink to %q", m.Source, to)
			}
		}
		if under, place := beneath(spec.Table, m.Path); under != nil {
			// A symlink would lead the launcher to another place.
			if to, err := filepath.EvalSymlinks(place); err != nil || to != place {
				return nil, viewError(m.Why, "%q has nothing in %q (%s) to be mounted on", m.Path, under.Source, under.Why)
			}
			pin(under, m.Path, place, m.Why)
		}
	}
	for _, m := range masks {
		if err := nameable(m.Origin, odd, m.Path); err != nil {
			return nil, err
		}
		if under, place := beneath(spec.Table, m.Path); under != nil {
			if to, err := filepath.EvalSymlinks(place); err == nil && to == place {
				pin(under, m.Path, place, m.Origin)
			}
		}
	}
	add(shared.Entry{Path: "/tmp", Access: shared.Private, Why: "filesystem"})
	add(shared.Entry{Path: "/var/tmp", Access: shared.Private, Why: "filesystem"})
	add(shared.Entry{Path: spec.Home, Access: shared.Private, Why: "home"})
	for _, m := range view {
		if err := nameable(m.Why, odd, m.Source, m.Path); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(view, func(a, b shared.Entry) int { return strings.Compare(a.Path, b.Path) })
	return view, nil
}

// beneath is the mount of the host's files that a destination lies in, not the
// one at it, and the host's path of the destination. It is nil where there is none.
func beneath(mounts []shared.Entry, destination string) (under *shared.Entry, place string) {
	rest := ""
	for i, m := range mounts {
		inside, ok := strings.CutPrefix(destination, strings.TrimSuffix(m.Path, "/")+"/")
		if ok && inside != "" && (under == nil || len(m.Path) > len(under.Path)) {
			under, rest = &mounts[i], inside
		}
	}
	if under == nil || under.Access == shared.Private {
		return nil, ""
	}
	return under, path.Join(under.Source, rest)
}

func nameable(origin, odd string, paths ...string) error {
	for _, p := range paths {
		if strings.ContainsAny(p, odd) || !utf8.ValidString(p) {
			return viewError(origin, "the launcher takes no path such as %q: none with one of %q, and none that is not UTF-8", p, odd)
		}
	}
	return nil
}

func viewError(origin, format string, args ...any) error {
	return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: origin, Message: fmt.Sprintf(format, args...)}
}
