//go:build unix

package facts

import (
	"cmp"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/view"
)

// toolPlaces is the input for the paths of toolchains.
type toolPlaces struct {
	goos, home string
	lookupEnv  func(string) (string, bool)
}

// list returns the possible paths of the table's rows, and the refused variables. It reads only its
// receiver.
func (p *toolPlaces) list() (dirs []view.ToolDir, refused []string) {
	for i := range toolchains {
		t := &toolchains[i]
		base, variable := p.expand(t.base)
		for _, name := range t.variables {
			value, set := p.lookupEnv(name)
			if !set || value == "" {
				continue
			}
			if name == "GOPATH" {
				value = filepath.SplitList(value)[0]
			}
			base, variable = value, name
			if !p.safe(value, t.within == nil) {
				base = ""
				refused = append(refused, name)
			}
			break
		}
		if base == "" {
			continue
		}
		value, _ := p.lookupEnv(variable)
		if t.within == nil {
			dirs = append(dirs, view.ToolDir{Path: base, Variable: variable, Value: value})
		}
		for _, name := range t.within {
			dirs = append(dirs, view.ToolDir{Path: filepath.Join(base, name), Variable: variable, Value: value})
		}
	}
	// A directory around another one comes first, and makes that unnecessary.
	slices.SortStableFunc(dirs, func(a, b view.ToolDir) int { return cmp.Compare(len(a.Path), len(b.Path)) })
	return dirs, refused
}

// expand returns a row's base as a path, or "".
func (p *toolPlaces) expand(base string) (dir, variable string) {
	place, rest, _ := strings.Cut(base, "/")
	switch place {
	case "~":
	case "$cache", "$data":
		name, below := "XDG_CACHE_HOME", ".cache"
		if place == "$data" {
			name, below = "XDG_DATA_HOME", ".local/share"
		}
		if value, set := p.lookupEnv(name); set && filepath.IsAbs(value) && value == filepath.Clean(value) {
			if value != p.home && !paths.Inside(value, p.home) {
				return filepath.Join(value, rest), name
			}
			return "", ""
		}
		if p.goos == "darwin" && place == "$cache" {
			below = "Library/Caches"
		}
		rest = filepath.Join(below, rest)
	default:
		return base, ""
	}
	if p.home == "" {
		return "", ""
	}
	return filepath.Join(p.home, rest), ""
}

// safe reports whether a variable's directory may be shown, as a whole or in part: not the system's
// own, none above the home directory, and none with credentials.
func (p *toolPlaces) safe(dir string, whole bool) bool {
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || strings.IndexByte(dir, 0) >= 0 {
		return false
	}
	for _, system := range [...]string{"/etc", "/proc", "/sys", "/dev", "/boot", "/root", "/var", "/run", "/tmp", "/home", "/usr", "/Users", "/System", "/Library", "/private"} {
		if paths.Inside(dir, system) {
			return false
		}
	}
	if paths.InsideAny([]string{"/etc", "/proc", "/sys", "/dev", "/run"}, dir) {
		return false
	}
	if p.home == "" {
		return true
	}
	if paths.Inside(dir, p.home) {
		return false
	}
	for _, place := range view.SecretPlaces {
		place = filepath.Join(p.home, place)
		if whole && paths.Inside(dir, place) || paths.Inside(place, dir) {
			return false
		}
	}
	return !whole || !slices.ContainsFunc(mixedPlaces[:], func(place string) bool { return paths.Inside(dir, filepath.Join(p.home, place)) })
}

// findToolchains returns the possible paths of toolchains of this caller's commands, and the refused
// variables.
func findToolchains(c *Caller, owner *Owner) (dirs []view.ToolDir, refused []string) {
	places := toolPlaces{goos: runtime.GOOS, home: c.Home, lookupEnv: c.LookupEnv}
	if owner != nil {
		// The variables belong to another user.
		places.home, places.lookupEnv = owner.Home, (&Caller{}).LookupEnv
	}
	return places.list()
}
