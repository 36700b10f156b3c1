package seatbelt

import (
	"fmt"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// environment is the command's, with the private directories. It is also the launcher's, because
// sandbox-exec passes on its own: variables that the system's loader or allocator would obey there,
// outside, are refused. The loader would not pass them on anyway.
func environment(p *policy, env []string, at places) ([]string, error) {
	out := make([]string, 0, len(env)+2)
	temp := false
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case strings.HasPrefix(name, "DYLD_"), strings.HasPrefix(name, "Malloc"), strings.HasPrefix(name, "__XPC_"):
			return nil, &shared.Error{Kind: shared.ErrUnsupported, Attribute: "env",
				Message: fmt.Sprintf("%s would change sandbox-exec itself, outside of the sandbox, or get lost", name),
				Hint:    fmt.Sprintf("let the command set it itself: env %s=... PROGRAM", name)}
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
