package env

import (
	"maps"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/view"
)

// Exact returns the variables set for one command alone, with their values: "name" means the
// caller's value, from lookup.
func Exact(command []string, lookup func(string) (string, bool)) (exact []string) {
	for _, entry := range command {
		if !strings.Contains(entry, "=") {
			value, ok := lookup(entry)
			if !ok {
				continue // the command does not get it either; an empty value would be different
			}
			entry += "=" + value
		}
		exact = append(exact, entry)
	}
	return exact
}

// Defined lists the settings of a definition and a workspace that matter for the environment of a
// command without its sandbox.
func Defined(def *view.Definition, own map[string]view.Credential, workspace map[string]string) (list []string) {
	for _, part := range []struct {
		name   string
		values map[string]string
	}{{"env", def.Env}, {"workspace.env", workspace}} {
		for _, name := range slices.Sorted(maps.Keys(part.values)) {
			list = append(list, part.name, name, part.values[name])
		}
	}
	passed, injected := view.SplitCredentials(def, own)
	for _, part := range []struct {
		name  string
		names []string
	}{{"env_passthrough", def.EnvPassthrough}, {"credentials", passed}, {"injected", injected}} {
		for _, name := range slices.Sorted(slices.Values(part.names)) {
			list = append(list, part.name, name)
		}
	}
	return list
}
