package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/glob"
)

// pathPatterns are paths and patterns of package glob. They stay unchanged, because they are
// relative to the workspace, which the host knows.
func (d *decoder) pathPatterns(it item) []string {
	return d.texts(it, func(e item, s string) bool {
		path := strings.TrimPrefix(s, "!")
		first, _, _ := strings.Cut(path, "/")
		switch _, err := glob.Parse(s); {
		case err != nil && e.hidden:
			d.invalid(e, "the value is not a path or pattern")
		case path == "~" || path == "~/":
			d.invalid(e, "%s is the home directory itself; name a path in it", e.show(s))
		case err != nil:
			d.invalid(e, "%v", err)
		case strings.HasPrefix(first, "~") && first != "~":
			d.invalid(e, "%s: only ~/... is expanded; write the path out, or \\~ for the character", e.show(s))
		default:
			return true
		}
		return false
	})
}

// protectExceptions are names of paths that are protected by default.
func (d *decoder) protectExceptions(it item) []string {
	known := host.DefaultProtected()
	return d.texts(it, func(e item, s string) bool {
		given := slices.Contains(known, strings.TrimSuffix(s, "/"))
		if !given {
			d.invalid(e, "%s is not protected by default, or cannot be given up%s; docs/protected.md has the list", e.show(s), didYouMean(e, s, known))
		}
		return given
	})
}

// devices are paths of device nodes, in /dev.
func (d *decoder) devices(it item) []string {
	return d.good(it, func(e item) (string, bool) {
		p, ok := d.bindPath(e)
		return p, ok && d.reads(e, func() error {
			if !strings.HasPrefix(p, "/dev/") {
				return fmt.Errorf("%q is not a device: write its path in /dev, such as \"/dev/fuse\"", p)
			}
			return nil
		})
	})
}

// socketPaths are paths of socket files. The file's directory is the base of relative ones, as for
// bind_paths.
func (d *decoder) socketPaths(it item) []string { return d.good(it, d.bindPath) }
