package seatbelt

import (
	"fmt"
	"strings"

	"github.com/sbxhost/sbxhost/internal/engine/scratch"
	"github.com/sbxhost/sbxhost/shared"
)

// environment is the command's, with the private directories. It is also the launcher's, because
// sandbox-exec passes on its own: variables that the system's loader or allocator would obey there,
// outside, are refused. The loader would not pass them on anyway.
func environment(p *policy, env []string, at places) ([]string, error) {
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "DYLD_") || strings.HasPrefix(name, "Malloc") || strings.HasPrefix(name, "__XPC_") {
			return nil, &shared.Error{Kind: shared.ErrUnsupported, Attribute: "env",
				Message: fmt.Sprintf("%s would change sandbox-exec itself, outside of the sandbox, or get lost", name),
				Hint:    fmt.Sprintf("let the command set it itself: env %s=... PROGRAM", name)}
		}
	}
	return scratch.Environ(env, at.home, at.temp, func(name, value string) bool {
		a, _ := p.areaAt(strings.TrimRight(value, "/"))
		return a.writable && name == "TMPDIR" || value != p.spec.Home && name == "HOME"
	}), nil
}
