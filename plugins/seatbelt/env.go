package seatbelt

import (
	"fmt"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// environment is the command's, with the private directories in it. It is the
// launcher's too, for sandbox-exec hands on its own: what the system's loader or
// allocator would obey there, outside, is refused. The loader would not pass it
// on in any case.
func environment(p *policy, env []string, at places) ([]string, error) {
	out := make([]string, 0, len(env)+2)
	temp := false
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case strings.HasPrefix(name, "DYLD_"), strings.HasPrefix(name, "Malloc"), strings.HasPrefix(name, "__XPC_"):
			return nil, &shared.Error{Kind: shared.ErrUnsupported, Attribute: "env",
				Message: fmt.Sprintf("%s would be obeyed by sandbox-exec, outside of the sandbox, or be lost on the way", name),
				Hint:    fmt.Sprintf("have the command set it itself: env %s=... PROGRAM", name)}
		case name == "HOME" && at.home != "" && value == p.spec.Home:
			entry = "HOME=" + at.home
		case name == "TMPDIR":
			if temp = true; !p.writableAt(value) {
				entry = "TMPDIR=" + at.temp
			}
		}
		out = append(out, entry)
	}
	if !temp {
		out = append(out, "TMPDIR="+at.temp)
	}
	return out, nil
}

// writableAt reports whether a mount lets the command write at a path.
func (p *policy) writableAt(at string) bool {
	a, ok := p.areaAt(strings.TrimRight(at, "/"))
	return ok && a.writable
}
