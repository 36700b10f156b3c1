package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sbxhost/sbxhost/glob"
	"github.com/sbxhost/sbxhost/scan"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/stubs"
	"github.com/sbxhost/sbxhost/workspace"
)

// maxMasks is how many paths are hidden from one command. Each costs a mount,
// a fifth of a millisecond.
const maxMasks = 2000

// A survey is what a look through all that a command will see has found.
type survey struct {
	deny, protect []pathRule
	found         *scan.Result
	extra         *scan.Result // of deny, in what the mounts do not show
	addOns        *scan.Result // sensitive files in the resolver's addOns
	guarded       *scan.Result // of protect
	granted       []string     // socket files
	agent         string       // that of ssh-agent, where commands may use it
}

// look looks through the trees that the mounts show.
func (r *resolver) look(m *mounts, d Definition) (*survey, error) {
	s := &survey{extra: &scan.Result{}, addOns: &scan.Result{}, guarded: &scan.Result{}}
	var err error
	if s.deny, err = r.pathRules("deny_paths", d.DenyPaths); err != nil {
		return nil, err
	}
	if s.protect, err = r.pathRules("protect_paths", d.ProtectPaths); err != nil {
		return nil, err
	}
	if s.granted, err = r.grantedSockets(d); err != nil {
		return nil, err
	}
	linked, names, err := r.linked(m)
	if err != nil {
		return nil, err
	}
	s.protect = append(s.protect, linked...)
	if slices.Contains(d.Credentials, CredentialSSHAgent) {
		if s.agent, err = r.agentSocket(); err != nil {
			return nil, attributeError("credentials", err.Error(), "")
		}
	}
	trees := m.trees()
	q := scan.Query{Sockets: true, Repositories: true, Name: r.sensitive.matches}
	if s.found, err = r.scanners.of(s.deny, "trees", q).Scan(trees...); err != nil {
		return nil, searchError(err)
	}
	extra := extraTrees(s.deny, trees)
	if len(extra) > 0 {
		if s.extra, err = r.scanners.of(s.deny, "extra", scan.Query{}).Scan(extra...); err != nil {
			return nil, searchError(err)
		}
	}
	if opt, err := filepath.EvalSymlinks(r.addOns); r.sensitive.Deny && err == nil && !slices.ContainsFunc(trees, func(t string) bool { return inside(t, opt) || inside(opt, t) }) {
		if s.addOns, err = r.scanners.of(nil, "add-ons", scan.Query{Name: r.sensitive.matches}).Scan(opt); err != nil {
			return nil, attributeError("approvals.mode", fmt.Sprintf("sensitive files in %s: %v", r.addOns, err), "with mode = \"ask\" they are not looked for there")
		}
	}
	// A look of its own: what lies beneath a match is not looked at, and there
	// can be something to hide beneath what is to be protected.
	if len(s.protect) > 0 {
		if s.guarded, err = r.scanners.of(s.protect, "protect", scan.Query{}).Scan(append(trees, names...)...); err != nil {
			return nil, searchError(err)
		}
	}
	return s, nil
}

// searchError says of a search that could not be made what it was for.
func searchError(err error) error {
	e := &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "deny_paths", Message: err.Error()}
	if errors.Is(err, scan.ErrTooLarge) {
		e.Hint = "show less: bind the directories that are needed, or choose a smaller workspace"
	}
	return e
}

// mask gives what is hidden from this command, what is shut out with what was to
// be guarded, and what must hold the place of what is to be hidden and does not
// exist.
func (r *resolver) mask(m *mounts, s *survey, shut []guard) (masks []shared.Mask, places []stubs.Stub, err error) {
	h := hiding{mounts: m, closed: r.closed, seen: map[string]bool{}}
	for i := range s.deny {
		if rule := &s.deny[i]; rule.literal != "" {
			if err := h.literal(rule); err != nil {
				return nil, nil, err
			}
		}
	}
	for _, f := range slices.Concat(s.found.Found, s.extra.Found, s.addOns.Found) {
		switch {
		case f.What == scan.Matched || f.What == scan.HardLink && f.Pattern >= 0:
			err = h.found(f, s.deny[f.Pattern].origin())
		case f.What == scan.Named || f.What == scan.HardLink:
			if r.sensitive.Deny {
				err = h.found(f, sensitiveOrigin)
			}
		case f.What == scan.Socket:
			if !slices.Contains(s.granted, f.Path) && f.Path != s.agent {
				h.hide(f.Path, false, socketOrigin)
			}
		case f.What == scan.Unsearched && f.UID == r.uid():
			// Who owns a directory can make it readable again.
			h.hide(f.Path, true, "a directory that cannot be searched")
		}
		if err != nil {
			return nil, nil, err
		}
	}
	for _, g := range shut {
		h.hide(g.path, false, g.origin)
	}
	r.hideRemembered(&h)
	for _, p := range s.found.Blind {
		m.notes = append(m.notes, fmt.Sprintf("%s is hidden; whether other hard links lead to it cannot be found out on its file system", p))
	}
	if m.spec.Filesystem == shared.FilesystemHost {
		if r.sensitive.Deny {
			m.notes = append(m.notes, `filesystem = "host" shows more than can be searched for each command: .env and .env.* are hidden in the workspace, in what is bound and in /opt, and nowhere else`)
		}
		for _, p := range s.found.Linked {
			m.notes = append(m.notes, fmt.Sprintf("%s is hidden; it has hard links besides those found, which may lie elsewhere in the host's tree", p))
		}
		r.hideControlSockets(&h)
	}
	if len(h.masks) > maxMasks {
		return nil, nil, attributeError("deny_paths", fmt.Sprintf("%d paths would have to be hidden, more than %d", len(h.masks), maxMasks),
			"hide the directories that they lie in")
	}
	return h.masks, h.places, nil
}

// hiding collects masks.
type hiding struct {
	*mounts
	closed func(host string) string
	masks  []shared.Mask
	places []stubs.Stub
	seen   map[string]bool
}

// hide hides a path of the host wherever it shows.
func (h *hiding) hide(host string, dir bool, origin string) {
	if shut := h.closed(host); shut != "" && h.mounts.beneath(shut) {
		host, dir = shut, true
	}
	at := h.mounts.places(host)
	if len(at) == 0 && !h.shown(host) {
		// Of the operating system's view, if it is there.
		if shut := h.closed(host); shut != "" && h.spec.Filesystem == shared.FilesystemHost {
			if cover, _ := h.cover(shut); cover == nil {
				h.show(shared.Entry{Path: shut, Access: shared.Private, Why: origin})
			}
			return
		}
		at = []string{host}
	}
	for _, p := range at {
		if !h.seen[p] {
			h.seen[p] = true
			h.masks = append(h.masks, shared.Mask{Path: p, Dir: dir, Origin: origin})
		}
	}
}

// found hides what was found. Of a symlink, that is what it leads to.
func (h *hiding) found(f scan.Found, origin string) error {
	if !f.Symlink {
		if f.What == scan.HardLink {
			origin += fmt.Sprintf(", a hard link of %s", f.Of)
		}
		h.hide(f.Path, f.Dir, origin)
		return nil
	}
	target, info, err := follow(f.Path)
	if err != nil || info == nil {
		return nil // it leads nowhere
	}
	if err := h.tooBroad(target, f.Path, origin); err != nil {
		return err
	}
	h.hide(target, info.IsDir(), origin)
	return nil
}

// tooBroad refuses to hide what the whole workspace lies in.
func (h *hiding) tooBroad(target, link, origin string) error {
	for _, mount := range h.spec.Table {
		if mount.Why == "workspace" && inside(target, mount.Source) {
			if origin == sensitiveOrigin {
				return attributeError("approvals.mode", fmt.Sprintf("%s is a symlink to %s, and to hide that as a %s would hide the workspace itself", link, target, origin),
					"remove it, or list its name in workspace.harmless_files")
			}
			return attributeError("deny_paths", fmt.Sprintf("%s leads to %s, which would hide the workspace itself", origin, target), "name what in it is to be hidden")
		}
	}
	return nil
}

// literal hides a path that was named, whether or not it exists.
func (h *hiding) literal(rule *pathRule) error {
	target, info, err := follow(rule.literal)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil // nobody who runs as the caller can get there
	case err != nil:
		return attributeError(rule.attribute, err.Error(), "")
	}
	// What is there can be another command's stub, and gone in a moment.
	if h.mounts.creatable(target) && h.closed(target) == "" {
		h.places = append(h.places, stubs.Stub{Path: target})
	} else if info == nil {
		return nil
	}
	h.hide(target, info == nil || info.IsDir(), rule.origin())
	return nil
}

// creatable reports whether a command could create a path of the host.
func (m *mounts) creatable(host string) bool {
	for _, at := range m.places(host) {
		if cover, _ := m.cover(at); cover != nil && cover.Access == shared.ReadWrite {
			return true
		}
	}
	return false
}

// Sensitive says what happens to files that look as if they held secrets: those
// named .env, and those whose names begin with ".env.".
type Sensitive struct {
	// Deny hides them from every confined command.
	Deny bool
	// Harmless are exact names that are let pass, such as ".env.example".
	Harmless []string
}

const sensitiveOrigin = "sensitive file"

func (s *Sensitive) matches(name string) bool {
	return strings.HasPrefix(name, ".") && workspace.Sensitive(name) && !slices.Contains(s.Harmless, name)
}

// patterns are the same for engines that go by patterns, which know no
// exceptions: what is not harmless is spelled out, character by character. Such
// an engine hides directories of these names, too.
func (s *Sensitive) patterns() (list []string) {
	const name = ".env"
	if !slices.Contains(s.Harmless, name) {
		list = append(list, "/**/"+name)
	}
	var rests []string // of harmless names
	for _, harmless := range s.Harmless {
		if rest, ok := strings.CutPrefix(harmless, name+"."); ok && utf8.ValidString(rest) {
			rests = append(rests, rest)
		}
	}
	var spell func(prefix string)
	spell = func(prefix string) {
		here := "/**/" + name + "." + glob.Quote(prefix)
		var next []rune
		for _, rest := range rests {
			if tail, ok := strings.CutPrefix(rest, prefix); ok && tail != "" {
				if r, _ := utf8.DecodeRuneInString(tail); !slices.Contains(next, r) {
					next = append(next, r)
				}
			}
		}
		harmless := slices.Contains(rests, prefix)
		switch {
		case len(next) == 0 && !harmless:
			list = append(list, here+"*")
			return
		case len(next) == 0:
			list = append(list, here+"?*")
			return
		case !harmless:
			list = append(list, here)
		}
		class := ""
		for _, r := range next {
			if strings.ContainsRune(`]\^!-`, r) {
				class += `\`
			}
			class += string(r)
		}
		list = append(list, here+"[!"+class+"]*")
		for _, r := range next {
			spell(prefix + string(r))
		}
	}
	spell("")
	return list
}

// within names the sensitive files that commands can see.
func (s *survey) within(sensitive *Sensitive) []string {
	var list []string
	for _, f := range s.found.Found {
		if f.What == scan.Named && !sensitive.Deny {
			list = append(list, f.Path)
		}
	}
	return list
}

// remarks are notes for people who ask: nothing in them was held less well than
// the definition says.
func (r *resolved) remarks() (notes []string) {
	if r.spec.Unconfined {
		return nil
	}
	notes = append(notes, r.given...)
	const some = 10
	for i, p := range r.sensitive {
		if i == some {
			notes = append(notes, fmt.Sprintf("and %d further files look as if they held secrets", len(r.sensitive)-some))
			break
		}
		notes = append(notes, fmt.Sprintf("%s looks as if it held secrets, and can be read; deny_paths hides it", p))
	}
	return notes
}

// uid is whom commands run as.
func (r *resolver) uid() uint32 {
	if r.owner != nil {
		return r.owner.user.UID
	}
	return uint32(r.caller.uid)
}
