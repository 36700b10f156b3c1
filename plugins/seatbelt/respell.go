package seatbelt

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// respell turns the Spec's paths into the kernel's spelling of them.
func respell(spec *shared.Spec) error {
	for i := range spec.Table {
		m := &spec.Table[i]
		p, err := canonical(m.Path)
		if err != nil {
			return invalid(m.Why, err.Error(), "")
		}
		m.Source, m.Path = p, p
	}
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

// withTargets adds, to patterns that lead through a symlink of the host's, those
// for where it leads: the kernel goes by that alone. Patterns that are none are
// left for newPolicy to refuse.
func withTargets(patterns []string) []string {
	list := slices.Clone(patterns)
	for _, text := range patterns {
		p, err := parsePattern(text)
		if err != nil || !p.absolute || p.base() == "" {
			continue
		}
		if target, ok := leadsTo(p.base()); ok {
			list = append(list, quotePattern(target)+afterBase(text))
		}
	}
	return list
}

// withMaskTargets does the same for masks.
func withMaskTargets(masks []shared.Mask, leadsTo func(string) (string, bool)) []shared.Mask {
	list := slices.Clone(masks)
	for _, m := range masks {
		if target, ok := leadsTo(m.Path); ok {
			m.Path = target
			list = append(list, m)
		}
	}
	return list
}

// leadsTo gives the path for which a symlink makes the kernel take another one.
// What of it does not exist yet stays as it is.
func leadsTo(p string) (target string, ok bool) {
	at, missing := p, ""
	for at != "/" {
		if _, err := os.Lstat(at); err == nil {
			break
		}
		missing = "/" + path.Base(at) + missing
		at = path.Dir(at)
	}
	real := resolved(at)
	return path.Clean(real + missing), real != at
}

// afterBase is what follows the last name without wildcards in a pattern.
func afterBase(text string) (rest string) {
	names := strings.Split(text, "/")
	for i, name := range names {
		if s, err := parseSegment(name); name != "" && (err != nil || s.deep || !s.plain) {
			return "/" + strings.Join(names[i:], "/")
		}
	}
	return ""
}

// quotePattern is the pattern for a path.
func quotePattern(p string) string {
	var b strings.Builder
	for _, r := range p {
		if strings.ContainsRune(`*?[]{}\`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
