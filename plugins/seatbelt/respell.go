package seatbelt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// respell turns the Spec's paths into the kernel's spelling of them.
func respell(spec *shared.Spec) error {
	table := spec.Table[:0]
	for _, e := range spec.Table {
		if e.Access == shared.Hidden {
			// Its spelling stays: what it leads to is looked for with each command.
			if _, err := os.Lstat(e.Path); err != nil && e.Missing != shared.MissingIgnore {
				return invalid(e.Why, fmt.Sprintf("%q, which is to be hidden: %v", e.Path, err), "")
			}
			table = append(table, e)
			continue
		}
		p, err := canonical(e.Path)
		if errors.Is(err, fs.ErrNotExist) && e.Missing == shared.MissingIgnore {
			continue
		}
		if err != nil {
			return invalid(e.Why, err.Error(), "")
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
			return invalid("home", err.Error(), "")
		}
		spec.Home = p
	}
	return nil
}

// withHiddenTargets adds, to entries that hide and lead through a symlink of the host's, those
// for where it leads: the kernel goes by that alone.
func withHiddenTargets(table []shared.Entry, leadsTo func(string) (string, bool)) []shared.Entry {
	list := slices.Clone(table)
	for _, e := range table {
		if e.Access != shared.Hidden {
			continue
		}
		if target, ok := leadsTo(e.Path); ok {
			e.Path = target
			list = append(list, e)
		}
	}
	return list
}

// leadsTo gives the path for which a symlink makes the kernel take another one.
// What of it does not exist yet stays as it is.
func leadsTo(p string) (target string, ok bool) {
	at := "" // the deepest directory that is there
	end, there, err := paths.Follow("/", p, func(next string, _ bool) (step paths.Step, err error) {
		info, err := os.Lstat(next)
		switch {
		case err != nil:
			at = path.Dir(next)
			return paths.Step{Missing: true}, nil
		case info.Mode()&fs.ModeSymlink != 0:
			step.Target, err = os.Readlink(next)
		}
		return step, err
	})
	if err != nil {
		return p, false
	}
	if there {
		at = end
	}
	if real, err := canonical(at); err == nil && paths.Inside(at, end) {
		end = paths.Move(end, at, real)
	}
	return end, end != p
}
