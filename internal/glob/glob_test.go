package glob

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// Match reports whether a path, a directory or not, matches.
func (p *Pattern) Match(path string) bool {
	at, accepted := p.start(), false
	for name := range strings.SplitSeq(path, "/") {
		at, accepted = p.step(at, name)
	}
	return accepted
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ pattern, yes, no string }{
		{"secrets/prod.key", "secrets/prod.key", "secrets/prod.keys secrets a/secrets/prod.key secrets/prod.key/x"},
		{"./a//b", "a/b", "a"},
		{"*.pem", "a.pem .pem", "a/b.pem a.pem/b pem"},
		{"**/.env", ".env a/.env a/b/.env", "a.env .env/x .envs"},
		{"**/.env.*", ".env.local a/.env.", ".env .envrc"},
		{"secrets/**", "secrets/a secrets/a/b", "secrets a/secrets/a"},
		{"**", "a a/b .a", ""},
		{"a/**/b", "a/b a/x/b a/x/y/b", "a b a/x/y"},
		{"**/a/**/b/**", "a/b/c x/a/y/b/c/d a/b/b/b", "a/b x/a/b"},
		{"key[0-9].txt", "key0.txt key9.txt", "key.txt keya.txt key10.txt"},
		{"[!a-c]x", "dx -x \xffx", "ax bx x ddx"},
		{"[a-\ufffc]x", "ax", "-x \xffx"},
		{`[^\]a]`, "b -", "] a"},
		{`[\]a\-]`, "] a -", "b"},
		{`[\]\-]`, "] -", `\ a`},
		{`what\?\*\[`, "what?*[", "whatx*["},
		{`\{a\}`, "{a}", "a"},
		{"?", "a é \xff", "ab "},
		{"a*b*c", "abc aXbYc abbcc abcbc", "ac abd"},
		{"*é*", "é caféx", "cafe"},
		{"a**b", "ab axxb", "a/b"},
		{"build/", "build", "build/x"},
	} {
		p, err := Parse(test.pattern)
		if err != nil {
			t.Errorf("%s: %v", test.pattern, err)
			continue
		}
		for want, paths := range map[bool]string{true: test.yes, false: test.no} {
			for path := range strings.SplitSeq(paths, " ") {
				if want == false && path == "" {
					continue
				}
				if got := p.Match(path); got != want {
					t.Errorf("%s matches %q: %v", test.pattern, path, got)
				}
				if got := naively(p, path); got != want {
					t.Errorf("%s matches %q by the reference: %v", test.pattern, path, got)
				}
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "/", ".", "a/../b", "..", "[a", "[", `[\]`, "[]", "[!]", "[]a]", "[^]a]", "[a-]", "[[:alpha:]]", "[!z-a]", "[z-a]", `a\`, "a\x00b", "*.{pem,key}", "a}", "[\xff]", "[a-\U0010ffff]",
		strings.Repeat("a/", maxNames+1)} {
		if p, err := Parse(text); !errors.Is(err, ErrPattern) {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	}
}

func TestBaseAndLiteral(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, base string
		more, dirOnly bool
	}{
		{"/a/b", "a/b", false, false},
		{"a/b/", "a/b", false, true},
		{`a\*/b`, "a*/b", false, false},
		{"a/*/b", "a", true, false},
		{"**/x", "", true, false},
		{"**/", "", true, true},
	} {
		p, err := Parse(test.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if base, more := p.Base(); base != test.base || more != test.more || p.dirOnly != test.dirOnly {
			t.Errorf("%s: %q, %v, %v", test.pattern, base, more, p.dirOnly)
		}
	}
	p, err := Parse(`a\*/b/**/c[x]/`)
	if err != nil {
		t.Fatal(err)
	}
	if q, err := p.Rebase("/x*/y"); err != nil || q.String() != `/x\*/y/**/c[x]/` || !q.Match("x*/y/z/cx") || !q.dirOnly {
		t.Errorf("rebased it is %s, %v", q, err)
	}
	if _, err := p.Rebase(strings.Repeat("/x", maxNames)); !errors.Is(err, ErrPattern) {
		t.Error(err)
	}
	for _, name := range []string{"plain", `a*?[]{}\b`, "[x]", "x*/!b/[c]"} {
		p, err := Parse(Quote(name))
		if err != nil {
			t.Fatal(err)
		}
		if got, more := p.Base(); more || got != name {
			t.Errorf("%q quoted is %q, which is %q", name, Quote(name), got)
		}
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	var patterns []*Pattern
	for _, text := range []string{"a/b/", "a/*", "**/x"} {
		p, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		patterns = append(patterns, p)
	}
	s := NewSet(patterns...)
	start := s.Start()
	if m := s.Match(start, "a"); m != None {
		t.Errorf("a: %v", m)
	}
	a := s.Next(start, "a")
	if m := s.Match(a, "b"); m != (Match{Any: 1, Dir: 0}) {
		t.Errorf("a/b: %v", m)
	}
	if m := s.Match(a, "x"); m != (Match{Any: 1, Dir: 1}) {
		t.Errorf("a/x: %v", m)
	}
	if dead(a) || s.Uncovered(start, start) != -1 || s.Uncovered(a, start) != 0 || s.Uncovered(s.Next(start, "z"), a) != -1 {
		t.Error("states do not compare")
	}
	if !dead(NewSet(patterns[:2]...).Next(State{1, 1}, "z")) {
		t.Error("nothing can match beneath z")
	}
}

func TestExcept(t *testing.T) {
	t.Parallel()
	parse := func(text string) *Pattern {
		p, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, tt := range []struct {
		patterns string
		covers   string
		not      string
	}{
		{"**/*.pem !vendor/**", "a.pem a/b.pem", "vendor/a.pem vendor/b/c.pem vendor"},
		{"**/*.pem !vendor/** vendor/b/*.pem", "vendor/b/c.pem", "vendor/a.pem"},
		{"!vendor/** **/*.pem", "vendor/a.pem", "vendor/a"},
		{"** !a", "b a/b", "a"},
		{"secrets/ !secrets/README", "secrets secrets/README secrets/a", "other"},
		{"*.pem !a.pem *.p[de]m", "a.pem", "a.key"},
	} {
		var list []*Pattern
		for _, text := range strings.Fields(tt.patterns) {
			list = append(list, parse(text))
		}
		s := NewSet(list...)
		for _, path := range strings.Fields(tt.covers) {
			if s.Cover(path, true) < 0 {
				t.Errorf("%s does not cover %q", tt.patterns, path)
			}
		}
		for _, path := range strings.Fields(tt.not) {
			if s.Cover(path, true) >= 0 {
				t.Errorf("%s covers %q", tt.patterns, path)
			}
		}
	}
	builds := NewSet(parse("**/build/"), parse("**/*.lock"), parse("!**/a.lock"))
	for path, want := range map[string]int{"x/build": -1, "x/build/y": 0, "x.lock": 1, "x/a.lock": -1, "x": -1} {
		if got := builds.Cover(path, false); got != want {
			t.Errorf("the file %q: %d", path, got)
		}
	}
	if got := builds.Cover("x/build", true); got != 0 {
		t.Errorf("a directory: %d", got)
	}
	// Of what is no directory, an exemption of directories says nothing.
	if m := NewSet(parse("**/x"), parse("!**/x/")).Match(NewSet(parse("**/x"), parse("!**/x/")).Start(), "x"); m != (Match{Any: 0, Dir: -1}) {
		t.Errorf("a directory is exempt: %v", m)
	}
	for pair, want := range map[string]bool{
		"**/*.pem !vendor/**": true, "*.pem !vendor/**": false, "**/*.pem !a/b.pem": true, "**/*.pem !.env": false, "a/** !**/b": true, "a/*/c !**": true, "a !a/b": false,
	} {
		a, b, _ := strings.Cut(pair, " ")
		if parse(a).Meets(parse(b)) != want || parse(b).Meets(parse(a)) != want {
			t.Errorf("%s meet: %v", pair, !want)
		}
	}
	if p := parse(Quote("!a")); p.Except() || !p.Match("!a") {
		t.Error("a name that is quoted exempts")
	}
}

// naively matches by trying everything, as the documentation reads.
func naively(p *Pattern, path string) bool {
	known := map[[2]int]bool{} // by how much of the pattern is matched by how much of the path
	var match func(pattern []Name, names []string) bool
	match = func(pattern []Name, names []string) (ok bool) {
		key := [2]int{len(pattern), len(names)}
		if ok, had := known[key]; had {
			return ok
		}
		defer func() { known[key] = ok }()
		switch {
		case len(pattern) == 0:
			return len(names) == 0
		case pattern[0].deep && len(pattern) == 1:
			return len(names) > 0
		case pattern[0].deep:
			return match(pattern[1:], names) || len(names) > 0 && match(pattern, names[1:])
		}
		return len(names) > 0 && pattern[0].matches(names[0]) && match(pattern[1:], names[1:])
	}
	return match(p.names, strings.Split(path, "/"))
}

func FuzzMatch(f *testing.F) {
	for _, seed := range [][2]string{
		{"**/.env", "a/b/.env"}, {"a/**/b/**", "a/b/b"}, {"a*b?c[!x-z]", "aXbYcW"}, {`\*\[`, "*["}, {"*é?", "xé\xff"},
		{"**/*a*/**/b*b", "a/a/a/bb"}, {"[]-a]*", "]x"}, {"build/", "build"},
		{"*******T", "0000000000000000000Gc\xff\x8000000000000000000000"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, text, path string) {
		if len(text) > 64 || len(path) > 64 {
			return
		}
		p, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrPattern) {
				t.Fatal(err)
			}
			return
		}
		if got, want := p.Match(path), naively(p, path); got != want {
			t.Fatalf("%q matches %q: %v, and %v by the reference", text, path, got, want)
		}
		// A Set of one says the same, name by name.
		s := NewSet(p)
		st, m, alive := s.Start(), None, true
		for name := range strings.SplitSeq(path, "/") {
			alive = !dead(st)
			m, st = s.Match(st, name), s.Next(st, name)
		}
		if (m.Dir == 0) != (p.Match(path) && !p.Except()) || p.Match(path) && !alive {
			t.Fatalf("%q on %q: the set says %v, alive %v", text, path, m, alive)
		}
		// What is exempt is what both match, and both must be known to meet.
		q, err := Parse("!" + path)
		if err != nil || p.Except() || !p.Match(path) {
			return
		}
		if q.Match(path) && !p.Meets(q) {
			t.Fatalf("%q and %q meet in %q", p, q, path)
		}
		if covered := NewSet(p, q).Match(NewSet(p, q).Start(), path); !strings.Contains(path, "/") && !p.dirOnly && !q.dirOnly && (covered.Any >= 0) == q.Match(path) {
			t.Fatalf("%q with %q on %q: %v", p, q, path, covered)
		}
		if lit, more := p.Base(); !more && !p.Match(lit) {
			t.Fatalf("%q does not match its literal %q", text, lit)
		}
	})
}

// dead reports whether nothing beneath can match.
func dead(st State) bool {
	return !slices.ContainsFunc(st, func(at positions) bool { return at != 0 })
}
