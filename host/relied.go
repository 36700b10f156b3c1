package host

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
)

// relied is a path, as it was spelled, that sbxhost obeys or runs what lies at. A
// mount protects what it leads to, and cannot lie on a symlink on the way: a
// command that replaces that leads the next sbxhost to what it has made itself.
type relied struct {
	path, what string
}

// reliesOn lists them.
func (h *Host) reliesOn() (list []relied) {
	for _, p := range h.options.Protected {
		list = append(list, relied{p, "the configuration in force"})
	}
	for _, record := range h.resolver.recorded {
		list = append(list, relied{record.path, record.what})
	}
	if dir := h.caller.stateDir(); dir != "" {
		list = append(list, relied{dir, "what sbxhost remembers"})
	}
	for _, name := range slices.Sorted(maps.Keys(h.options.Engines)) {
		list = append(list, relied{h.declaredPath(h.options.Engines[name]), fmt.Sprintf("the source of engine %q", name)})
	}
	return list
}

// checkRelied refuses a definition that would let commands replace a symlink on
// the way to what is relied on, or to where sbxhost would look for it.
func (r *resolver) checkRelied(m *mounts, d Definition) error {
	if r.unconfined(d) {
		return nil
	}
	for i, on := range r.relied {
		if i > 0 && r.relied[i-1].path == on.path {
			continue
		}
		if _, err := r.checkWay(m, on.path, on.what); err != nil {
			return err
		}
	}
	for _, o := range r.own {
		if o.byBind {
			continue
		}
		dir, err := r.checkWay(m, o.dir, o.what)
		if err != nil {
			return err
		}
		if !m.writable(dir) {
			continue // nor are the names in it
		}
		for _, name := range o.names {
			if _, err := r.checkWay(m, filepath.Join(o.dir, name), o.what); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkWay does so for one path, and gives what it leads to; "" where it cannot
// be followed.
func (r *resolver) checkWay(m *mounts, path, what string) (led string, err error) {
	led, link, have := m.replaceable(path, r.guardedByOwn)
	if link == "" {
		return led, nil
	}
	hint := "take the symlink out of what commands can write"
	if led != "" {
		hint += fmt.Sprintf(", or name what it leads to: %s", led)
	}
	return led, attributeError(have.Why, fmt.Sprintf("commands could replace the symlink %s, which leads to %s", link, what), hint)
}

// guardedByOwn reports whether a path lies in what guardOwn protects.
func (r *resolver) guardedByOwn(path string) bool {
	return slices.ContainsFunc(r.own, func(o own) bool {
		dir, _, err := follow(o.dir)
		return err == nil && !o.byBind && slices.ContainsFunc(o.names, func(name string) bool {
			place := filepath.Join(dir, name)
			return place != path && inside(place, path)
		})
	})
}

// linked gives rules for what sbxhost obeys or runs and what has further names:
// by one of those that lies where commands can write, they could change it. Of
// what lies outside of all that is shown, it gives the paths as well.
func (r *resolver) linked(m *mounts) (rules []pathRule, outside []string, err error) {
	if !slices.ContainsFunc(m.spec.Table, func(have shared.Entry) bool { return have.Access == shared.ReadWrite }) {
		return nil, nil, nil
	}
	for _, files := range [...]struct {
		paths []string
		what  string
	}{{r.protected, "the configuration in force"}, {r.programs, "a program of sbxhost"}} {
		for _, p := range files.paths {
			if info, err := os.Lstat(p); err != nil || info.Sys().(*syscall.Stat_t).Nlink < 2 || info.IsDir() {
				continue
			}
			more, err := r.pathRules(files.what, []string{quotePath(p)})
			if err != nil {
				return nil, nil, err
			}
			rules = append(rules, more...)
			if !m.shown(p) {
				outside = append(outside, p)
			}
		}
	}
	return rules, outside, nil
}

// replaceable gives what a path of the host leads to, and the first symlink on the
// way that commands can replace, with the mount by which they can; "" where there
// is none. A symlink that except is true for is passed over; it may be nil.
func (m *mounts) replaceable(path string, except func(string) bool) (led, link string, by shared.Entry) {
	// What cannot be followed is not reached: the links before that count.
	led, _, _ = followVia(path, func(at string) {
		for _, have := range m.spec.Table {
			if link == "" && have.Access == shared.ReadWrite && inside(have.Source, filepath.Dir(at)) && (except == nil || !except(at)) {
				link, by = at, have
			}
		}
	})
	return led, link, by
}
