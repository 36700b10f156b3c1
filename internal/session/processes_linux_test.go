package session

import (
	"slices"
	"testing"
)

// A process that writes its title over its arguments leaves empty words after it.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	for cmdline, want := range map[string][]string{
		"":                        {"[name]"},
		"a\x00\x00b\x00":          {"a", "", "b"},
		"npm run dev\x00\x00\x00": {"npm run dev"},
	} {
		if got := commandLine([]byte(cmdline), "name"); !slices.Equal(got, want) {
			t.Errorf("%q: %q", cmdline, got)
		}
	}
}
