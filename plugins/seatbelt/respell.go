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
	for i := range spec.Mounts {
		m := &spec.Mounts[i]
		p, err := canonical(m.Destination)
		if err != nil {
			return invalid(m.Origin, err.Error(), "")
		}
		m.Source, m.Destination = p, p
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
		at, missing := p.base(), ""
		for at != "/" {
			if _, err := os.Lstat(at); err == nil {
				break
			}
			missing = "/" + path.Base(at) + missing
			at = path.Dir(at)
		}
		if real := resolved(at); real != at {
			list = append(list, quotePattern(path.Clean(real+missing))+afterBase(text))
		}
	}
	return list
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
