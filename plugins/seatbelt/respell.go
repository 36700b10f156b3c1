package seatbelt

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// respell turns the Spec's paths into the kernel's spelling.
func respell(spec *shared.Spec) error {
	table := spec.Table[:0]
	for _, e := range spec.Table {
		if e.Access == shared.Hidden {
			// Its spelling stays: each command resolves it again.
			if _, err := os.Lstat(e.Path); err != nil && e.Missing != shared.MissingIgnore {
				return invalid(e.Why, "", "%q, which must be hidden: %v", e.Path, err)
			}
			table = append(table, e)
			continue
		}
		p, err := canonical(e.Path)
		if errors.Is(err, fs.ErrNotExist) && e.Missing == shared.MissingIgnore {
			continue
		}
		if err != nil {
			return invalid(e.Why, "", "%v", err)
		}
		e.Source, e.Path = p, p
		table = append(table, e)
	}
	spec.Table = table
	if spec.Home != "" {
		p, err := canonical(spec.Home)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // nothing to hide
		}
		if err != nil {
			return invalid("home", "", "%v", err)
		}
		spec.Home = p
	}
	return nil
}

// withHiddenTargets adds entries for the targets of hidden entries that lead through a symlink of
// the host: the kernel checks only the target.
func withHiddenTargets(table []shared.Entry, leadsTo func(string) string) []shared.Entry {
	list := slices.Clone(table)
	for _, e := range table {
		if e.Access != shared.Hidden {
			continue
		}
		if target := leadsTo(e.Path); target != e.Path {
			e.Path = target
			list = append(list, e)
		}
	}
	return list
}

// leadsTo returns the kernel's path for p. The missing part of a path does not change.
func leadsTo(p string) string {
	at := "" // the deepest existing directory
	end, there, err := paths.Follow("/", p, func(next string, _ bool) (step paths.Step, err error) {
		at = path.Dir(next)
		info, err := os.Lstat(next)
		switch {
		case err != nil:
			return paths.Step{Missing: true}, nil
		case info.Mode()&fs.ModeSymlink != 0:
			step.Target, err = os.Readlink(next)
		}
		return step, err
	}, nil)
	if err != nil {
		return p
	}
	if there {
		at = end
	}
	if real, err := canonical(at); err == nil && paths.Inside(at, end) {
		end = paths.Move(end, at, real)
	}
	return end
}
