package view

import (
	"testing"

	"github.com/sbxhost/sbxhost/glob"
)

// Engines that go by patterns hide what masks hide, and no more of the files.
func TestSensitivePatterns(t *testing.T) {
	t.Parallel()
	names := []string{".env", ".env.", ".env.e", ".env.exampl", ".env.example", ".env.examples", ".env.Example", ".env.x", ".env.test", ".env.test.example",
		".env.te", ".env.-", ".env.]", ".env.a-b", ".env.é", ".envrc", "x.env", ".en"}
	for _, harmless := range [][]string{
		nil, {".env.example"}, {".env.example", ".env.examples"}, {".env.test.example", ".env.test", ".env.a-b"}, {".env"}, {".env."}, {".env.]", ".env.é"}, {"other", ".envrc"},
	} {
		s := Sensitive{Deny: true, Harmless: harmless}
		var list []*glob.Pattern
		for _, text := range s.patterns() {
			p, err := glob.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, p)
		}
		set := glob.NewSet(list...)
		for _, name := range names {
			state := set.Next(set.Start(), "dir")
			if got, want := set.Match(state, name).Any >= 0, s.Matches(name); got != want {
				t.Errorf("harmless %q: the patterns hide %q: %v, want %v\n%q", harmless, name, got, want, s.patterns())
			}
		}
	}
}
