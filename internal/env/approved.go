package env

import (
	"maps"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/view"
)

// Exact are the variables that are set for one command alone, with their values: "name"
// stands for the caller's, which lookup reads.
func Exact(command []string, lookup func(string) (string, bool)) (exact []string) {
	for _, entry := range command {
		if !strings.Contains(entry, "=") {
			value, ok := lookup(entry)
			if !ok {
				continue // nor has the command it, which is not what an empty one is
			}
			entry += "=" + value
		}
		exact = append(exact, entry)
	}
	return exact
}

// Defined lists what a definition and the workspace say of the environment that a
// command has without its sandbox: of all that they say, that alone still makes
// a difference to it then.
func Defined(def *view.Definition, own map[string]view.Credential, workspace map[string]string) (list []string) {
	for _, part := range []struct {
		name   string
		values map[string]string
	}{{"env", def.Env}, {"workspace.env", workspace}} {
		for _, name := range slices.Sorted(maps.Keys(part.values)) {
			list = append(list, part.name, name, part.values[name])
		}
	}
	for _, part := range []struct {
		name  string
		names []string
	}{{"env_passthrough", def.EnvPassthrough}, {"credentials", def.Passed(own)}, {"injected", def.Injected(own)}} {
		for _, name := range slices.Sorted(slices.Values(part.names)) {
			list = append(list, part.name, name)
		}
	}
	return list
}
