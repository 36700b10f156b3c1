package view

import (
	"testing"

	"github.com/sbxhost/sbxhost/internal/glob"
)

// The patterns hide what masks hide, and no more of the files.
func TestSensitivePatterns(t *testing.T) {
	t.Parallel()
	names := []string{".env", ".env.", ".env.e", ".env.exampl", ".env.example", ".env.examples", ".env.Example", ".env.x", ".env.é", ".envrc", "x.env", ".en"}
	var list []*glob.Pattern
	for _, text := range sensitivePatterns {
		p, err := glob.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	set := glob.NewSet(list...)
	for _, name := range names {
		state := set.Next(set.Start(), "dir")
		if got, want := set.Match(state, name).Any >= 0, Sensitive(name); got != want {
			t.Errorf("the patterns hide %q: %v, want %v", name, got, want)
		}
	}
}
