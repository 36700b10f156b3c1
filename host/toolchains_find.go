package host

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
)

const toolchainOrigin = "workspace.toolchains"

// toolDir is a directory or file of a toolchain as it may be on this machine.
type toolDir struct {
	tool     string
	path     string
	variable string // the caller's variable that says so, or ""
}

// toolPlaces is what the places of toolchains depend on.
type toolPlaces struct {
	goos, home string
	lookupEnv  func(string) (string, bool) // nil: nothing is known, as of another user
}

// list gives where the table's rows may be, and the variables that were not
// believed. It looks at nothing but its receiver.
func (p *toolPlaces) list() (dirs []toolDir, refused []string) {
	for i := range toolchains {
		t := &toolchains[i]
		base, variable := p.expand(t.base)
		for _, name := range t.variables {
			value, set := p.env(name)
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
		if t.within == nil {
			dirs = append(dirs, toolDir{t.tool, base, variable})
		}
		for _, name := range t.within {
			dirs = append(dirs, toolDir{t.tool, filepath.Join(base, name), variable})
		}
	}
	// What holds another comes first and makes it needless.
	slices.SortStableFunc(dirs, func(a, b toolDir) int { return cmp.Compare(len(a.path), len(b.path)) })
	return dirs, refused
}

func (p *toolPlaces) env(name string) (string, bool) {
	if p.lookupEnv == nil {
		return "", false
	}
	return p.lookupEnv(name)
}

// expand gives a row's base as a path, "" where there is none.
func (p *toolPlaces) expand(base string) (dir, variable string) {
	place, rest, _ := strings.Cut(base, "/")
	switch place {
	case "~":
	case "$cache", "$data":
		name, below := "XDG_CACHE_HOME", ".cache"
		if place == "$data" {
			name, below = "XDG_DATA_HOME", ".local/share"
		}
		if value, set := p.env(name); set && filepath.IsAbs(value) && value == filepath.Clean(value) {
			if value != p.home && !inside(value, p.home) {
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

// safe reports whether what a variable says is a place that can be shown, as a
// whole or in part: the system's own, what holds the home directory and where
// credentials are kept is none.
func (p *toolPlaces) safe(dir string, whole bool) bool {
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || strings.IndexByte(dir, 0) >= 0 {
		return false
	}
	for _, system := range [...]string{"/etc", "/proc", "/sys", "/dev", "/boot", "/root", "/var", "/run", "/tmp", "/home", "/usr", "/Users", "/System", "/Library", "/private"} {
		if inside(dir, system) {
			return false
		}
	}
	for _, kernel := range [...]string{"/etc", "/proc", "/sys", "/dev", "/run"} {
		if inside(kernel, dir) {
			return false
		}
	}
	if p.home == "" {
		return true
	}
	if inside(dir, p.home) {
		return false
	}
	for i, place := range secretPlaces {
		place = filepath.Join(p.home, place)
		if whole && inside(dir, place) || i < onlySecrets && inside(place, dir) {
			return false
		}
	}
	return true
}

// onlySecrets is how many of secretPlaces hold nothing else, so that no
// toolchain lies in them either.
const onlySecrets = 11

// toolList is where toolchains may be for a Host.
type toolList struct {
	dirs    []toolDir
	refused []string // variables that were not believed
}

// findToolchains says where commands of this caller may have toolchains.
func findToolchains(c caller, owner *owner) *toolList {
	places := toolPlaces{goos: runtime.GOOS, home: c.home, lookupEnv: c.lookupEnv}
	if owner != nil {
		// The variables are those of another user.
		places.home, places.lookupEnv = owner.home, nil
	}
	var l toolList
	l.dirs, l.refused = places.list()
	return &l
}

// mountToolchains shows those toolchains that there are.
func (r *resolver) mountToolchains(m *mounts, out *resolved) {
	for _, name := range r.toolchains.refused {
		out.notes = append(out.notes, toolchainOrigin+": "+name+" names no directory that can be shown; its toolchain is left out")
	}
	var st syscall.Stat_t
	for _, dir := range r.toolchains.dirs {
		if syscall.Lstat(dir.path, &st) != nil {
			continue // as most are
		}
		shown := r.mountToolchain(m, out, dir)
		if name := dir.variable; shown && name != "" && !slices.Contains(out.toolEnv, name) {
			// Inside, XDG_CACHE_HOME and its like must be writable for what
			// is not in the table.
			value, _ := r.caller.lookupEnv(name)
			if !strings.HasPrefix(name, "XDG_") || m.spec.Home != "" && inside(m.spec.Home, value) {
				out.toolEnv = append(out.toolEnv, name)
			}
		}
	}
}

// mountToolchain shows one directory or file, and reports whether it shows.
func (r *resolver) mountToolchain(m *mounts, out *resolved, dir toolDir) bool {
	source, err := filepath.EvalSymlinks(dir.path)
	if err != nil {
		return false // it is not there, or not this user's to see
	}
	info, err := os.Stat(source)
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return false
	}
	if at, host := m.cover(dir.path); at != nil && host == source {
		return true // the definition, or a row, shows it already
	} else if at != nil && at.Why != toolchainOrigin && at.Path == dir.path {
		return false // the definition has something else there
	}
	if r.tooBroad(source) || m.planted(toolchainOrigin, dir.path) != nil {
		return false
	}
	mount := shared.Entry{Source: source, Path: source, Why: toolchainOrigin, Access: shared.ReadOnly}
	r.ephemeral(out, &mount)
	if mount.Access == shared.ReadOnly && m.inView(source) {
		// There as it is; only its other name may be missing.
		if source == dir.path {
			return true
		}
	} else {
		m.show(mount)
	}
	if source != dir.path {
		_ = m.addSpelling(mount, dir.path) // what the definition has there stays
	}
	return true
}

// tooBroad reports whether a link has led to what no row means.
func (r *resolver) tooBroad(source string) bool {
	home := r.home()
	if home != "" && inside(source, home) || source == "/" {
		return true
	}
	if home != "" {
		for _, place := range secretPlaces[:onlySecrets] {
			if inside(filepath.Join(home, place), source) {
				return true
			}
		}
	}
	for _, root := range r.ws.Roots() {
		if inside(source, root.Path) {
			return true // the project's own mount has to stay what it is
		}
	}
	return false
}

// inView reports whether a host path is there without any mount.
func (m *mounts) inView(p string) bool {
	if cover, _ := m.cover(p); cover != nil || m.spec.Home != "" && inside(m.spec.Home, p) {
		return false
	}
	views := [...]string{"/usr", "/opt", "/nix/store"}
	if m.spec.Filesystem == shared.FilesystemHost {
		return !slices.ContainsFunc([]string{"/tmp", "/var/tmp", "/run"}, func(dir string) bool { return inside(dir, p) })
	}
	return slices.ContainsFunc(views[:], func(dir string) bool { return inside(dir, p) })
}
