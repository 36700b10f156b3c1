package seatbelt

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/shared"
)

// dataVolume is where the writable half of the system volume is also mounted:
// /System/Volumes/Data/Users/me is /Users/me.
const dataVolume = "/System/Volumes/Data"

// Bounds of a profile. The system's own are 1 MiB for a command line and its environment, 1024
// bytes for a path and, as others have found, 64 KiB for the compiled patterns of one rule
// (https://github.com/NixOS/nix/issues/4119) and as much for all strings. sandbox-exec reports a
// profile that exceeds those, before a command starts.
const (
	maxPath       = 1023
	maxParameters = 2000
	maxParamBytes = 256 << 10
	maxProfile    = 512 << 10
	maxFilters    = 8 // in one rule; more make more rules
)

// area is a path of the host that the command sees.
type area struct {
	path     string
	writable bool
	origin   string
}

// policy is a Spec and a Command in terms of macOS, as the profile has them. To make it reads
// nothing.
type policy struct {
	spec         *shared.Spec
	areas        []area // the shortest path first: the deeper one decides
	hiddenAround []area // in the same order, with areas in them
	hidden       []area // whatever is mounted
	kept         []area // never writable: read-only areas in writable ones, and what macOS obeys
	tty          bool
}

// obeyedInHome are the paths in a home directory from which macOS runs or obeys something by
// itself: agents of launchd, login hooks, keychains, privacy consents.
var obeyedInHome = [...]string{
	"Library/LaunchAgents", "Library/Preferences", "Library/Keychains", "Library/Application Support/com.apple.TCC",
}

func newPolicy(spec *shared.Spec, cmd *shared.Command) (*policy, error) {
	p := &policy{spec: spec, tty: cmd.TTY}
	if err := p.takeTable(); err != nil {
		return nil, err
	}
	if spec.Home != "" {
		if err := checkName("home", spec.Home); err != nil {
			return nil, err
		}
		p.hiddenAround = append(p.hiddenAround, area{path: spec.Home, origin: "The home directory: nothing of it but what is mounted"})
		for _, name := range obeyedInHome {
			p.kept = append(p.kept, area{path: path.Join(spec.Home, name), origin: "obeyed by macOS: " + name})
		}
	}
	for _, list := range [...][]area{p.areas, p.hiddenAround} {
		slices.SortStableFunc(list, func(a, b area) int {
			return cmp.Or(len(a.path)-len(b.path), strings.Compare(a.path, b.path))
		})
	}
	for _, a := range p.areas {
		holds := func(b area) bool { return b.writable && paths.Inside(a.path, b.path) }
		if p.writableRoot(a.path) != "" && !a.writable && !slices.ContainsFunc(p.areas, holds) {
			p.kept = append(p.kept, a)
		}
	}
	return p, nil
}

// takeTable takes the areas and the hidden paths of the table.
func (p *policy) takeTable() error {
	holds := map[string]bool{} // the directories with areas in them
	for _, m := range p.spec.Table {
		if m.Access != shared.Hidden {
			for dir := range paths.Up(path.Dir(m.Path)) {
				holds[dir] = true
			}
		}
	}
	for i, m := range p.spec.Table {
		if err := checkName(m.Why, m.Path); err != nil {
			return err
		}
		a := area{m.Path, m.Access == shared.ReadWrite, cmp.Or(m.Why, fmt.Sprintf("table[%d]", i))}
		switch hides := m.Access == shared.Hidden; {
		case hides && holds[a.path]:
			p.hiddenAround = append(p.hiddenAround, a)
		case hides:
			p.hidden = append(p.hidden, a)
		case a.path == "/":
			return invalid(a.origin, `say filesystem = "host" to show it read-only`, "the whole host cannot be mounted")
		default:
			p.areas = append(p.areas, a)
		}
	}
	return nil
}

// areaAt returns the area of a path, unless something in it hides the path.
func (p *policy) areaAt(at string) (found area, ok bool) {
	for _, a := range p.areas { // the deepest comes last
		if paths.Inside(a.path, at) {
			found, ok = a, true
		}
	}
	for _, h := range p.hiddenAround {
		if ok && paths.Inside(h.path, at) && !paths.Inside(h.path, found.path) {
			return area{}, false
		}
	}
	return found, ok
}

// writableRoot returns the outermost writable area around a path; "" if there is none.
func (p *policy) writableRoot(at string) string {
	for _, a := range p.areas {
		if a.writable && paths.Inside(a.path, at) {
			return a.path
		}
	}
	return ""
}

// pins are the paths that must not be renamed or removed, or their contents would be at another
// path: each writable area itself, and the directories between it and other areas, hidden paths and
// private directories.
func (p *policy) pins(private ...string) []string {
	set := map[string]bool{}
	pin := func(at string) {
		root := p.writableRoot(at)
		for root != "" && at != root {
			at = path.Dir(at)
			set[at] = true
		}
	}
	for _, a := range slices.Concat(p.areas, p.hiddenAround, p.kept, p.hidden) {
		if a.writable {
			set[a.path] = true
		}
		pin(a.path)
	}
	for _, dir := range private {
		pin(dir)
	}
	return slices.Sorted(maps.Keys(set))
}

// ancestors are all directories above some paths: programs look at each of them to reach a path, or
// to find its canonical spelling.
func ancestors(list []string) []string {
	set := map[string]bool{}
	for _, p := range list {
		for at := path.Dir(p); at != "/"; at = path.Dir(at) {
			set[at] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// aliases returns both names that a path can have for the kernel.
func aliases(p string) []string {
	if rest, ok := strings.CutPrefix(p, dataVolume+"/"); ok {
		return []string{p, "/" + rest}
	}
	return []string{p, dataVolume + p}
}

// checkName refuses what cannot be a path of macOS.
func checkName(attribute, p string) error {
	switch {
	case len(p) > maxPath:
		return invalid(attribute, "", "%.60q... is longer than %d bytes, which no path of macOS is", p, maxPath)
	case !utf8.ValidString(p):
		return invalid(attribute, "", "%q is not UTF-8, which every path of macOS is", p)
	}
	return nil
}

func invalid(attribute, hint, format string, args ...any) error {
	return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: attribute, Message: fmt.Sprintf(format, args...), Hint: hint}
}
