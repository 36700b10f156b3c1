package cmdengine

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// View returns what a launcher that mounts by path, as container CLIs do, must mount and hide: a
// Spec's Table and, as [shared.Private], its Home, /tmp and /var/tmp, sorted, a directory before
// its contents. It reads the host's current files, so call it in Launch, and in Open to refuse
// early. The errors are ErrInvalidSpec and name the attribute.
//
//   - It refuses a path with a character in odd, which the launcher would read as two paths, and
//     one that is not UTF-8, which such launchers change.
//   - It refuses a missing source, unless its entry says to ignore it, and a source that leads
//     through a symlink: the host has resolved the path, so a command may have put the symlink
//     there since.
//   - A path inside another entry's files must exist, or the launcher would create it on the host.
//     A missing path to hide, there or in the host's view, is refused or omitted, as its entry says.
//     Elsewhere, View does not know what files there are: a launcher that knows must do this itself.
//   - The directories between a writable entry and those in it are bound onto themselves: see
//     [shared.Pins].
//   - The path of a hidden entry may be a symlink inside: hide what it leads to.
//   - /dev/shm is the launcher's: private, and no larger than Limits.TempSize.
//   - It omits hidden entries in hidden ones. If the next entry lies in a hidden one, make that of
//     empty memory, read-only.
//
// It does not notice a source that is swapped between this check and the mount: do not claim
// [shared.FeatureSourceFD].
func View(spec *shared.Spec, odd string) ([]shared.Entry, error) {
	kept, err := mounts(spec)
	if err != nil {
		return nil, err
	}
	for _, e := range [...]shared.Entry{
		{Path: "/tmp", Access: shared.Private, Why: "filesystem"},
		{Path: "/var/tmp", Access: shared.Private, Why: "filesystem"},
		{Path: spec.Home, Access: shared.Private, Why: "home"},
	} {
		if e.Path != "" && !slices.ContainsFunc(kept, func(k shared.Entry) bool { return k.Path == e.Path }) {
			kept = append(kept, e)
		}
	}
	for _, pin := range shared.Pins(kept) {
		// A path that leads through a symlink is not where the pin would protect it.
		if to, err := filepath.EvalSymlinks(pin.Source); err == nil && to == pin.Source && isDir(to) && pin.Access == shared.ReadWrite {
			kept = append(kept, pin)
		}
	}
	for _, e := range kept {
		if err := nameable(e.Why, odd, e.Source, e.Path); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(kept, func(a, b shared.Entry) int { return paths.Compare(a.Path, b.Path) })
	return kept, nil
}

// mounts returns the entries to mount: their sources and mount points exist.
func mounts(spec *shared.Spec) ([]shared.Entry, error) {
	view := make([]shared.Entry, 0, len(spec.Table))
	files := map[string]bool{} // entries whose source is not a directory
	for _, e := range spec.Table {
		if e.Access.Shows() {
			there, err := sourceOf(e)
			if err != nil {
				return nil, err
			}
			if !there {
				continue
			}
			files[e.Path] = !isDir(e.Source)
		}
		view = append(view, e)
	}
	cover := shared.Covers(view)
	kept := make([]shared.Entry, 0, len(view)+3)
	for _, e := range view {
		under, place := cover(path.Dir(e.Path))
		if under == nil && e.Access == shared.Hidden && spec.Filesystem == shared.FilesystemHost {
			under, place = &shared.Entry{Access: shared.ReadOnly}, path.Dir(e.Path)
		}
		switch {
		case under == nil || under.Path == e.Path:
		case under.Access == shared.Hidden && e.Access == shared.Hidden:
			continue
		case under.Access.Shows():
			if there, err := mountable(e, path.Join(place, path.Base(e.Path)), files[e.Path]); err != nil {
				return nil, err
			} else if !there {
				continue
			}
		}
		kept = append(kept, e)
	}
	return kept, nil
}

// sourceOf checks the source of an entry.
func sourceOf(e shared.Entry) (there bool, err error) {
	to, err := filepath.EvalSymlinks(e.Source)
	switch {
	case hostpath.Gone(err) && e.Missing == shared.MissingIgnore:
		return false, nil
	case hostpath.Gone(err):
		return false, invalid(e.Why, "create it, or mark the bind optional", "%q does not exist", e.Source)
	case err != nil:
		return false, invalid(e.Why, "", "%v", err)
	case to != e.Source:
		return false, invalid(e.Why, "", "%q has become a symlink to %q", e.Source, to)
	}
	return true, nil
}

// mountable checks the mount point of e on the host, in another entry's files. If e hides, it may
// be missing.
func mountable(e shared.Entry, place string, isFile bool) (there bool, err error) {
	to, err := filepath.EvalSymlinks(place)
	switch hides := e.Access == shared.Hidden; {
	case hides && hostpath.Gone(err) && e.Missing == shared.MissingIgnore:
		return false, nil
	case hostpath.Gone(err):
		return false, invalid(e.Why, "create it on the host, or choose a destination outside of the other binds",
			"%q does not exist in the files around it (%q on the host)", e.Path, place)
	case hides:
	case err != nil:
		return false, invalid(e.Why, "", "%v", err)
	case to != place:
		return false, invalid(e.Why, "", "%q leads through a symlink to %q, which a command could have put there", e.Path, to)
	case isDir(place) == isFile:
		return false, invalid(e.Why, "", "%q and its source are not both directories or both files", e.Path)
	}
	return true, nil
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

func nameable(origin, odd string, paths ...string) error {
	for _, p := range paths {
		if strings.ContainsAny(p, odd) {
			return invalid(origin, "", "the launcher cannot use the path %q: it accepts no path with one of %q", p, odd)
		}
		if !utf8.ValidString(p) {
			return invalid(origin, "", "the launcher cannot use the path %q, which is not UTF-8", p)
		}
	}
	return nil
}

func invalid(origin, hint, format string, args ...any) error {
	return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: origin, Message: fmt.Sprintf(format, args...), Hint: hint}
}
