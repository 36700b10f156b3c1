package paths

import (
	"path"
	"slices"
	"strings"
	"testing"
)

func TestInside(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		dir, p string
		want   bool
	}{
		{"/", "/", true}, {"/", "/a", true}, {"/a", "/a", true}, {"/a", "/a/b", true}, {"/a/b", "/a/b/c/d", true},
		{"/a/b", "/a/b-evil", false}, {"/a/b", "/a/b-evil/c", false}, {"/a/b", "/a", false}, {"/a", "/", false},
		{"/a", "/ab", false}, {"/ab", "/a/b", false}, {"/a\xff", "/a\xff/b", true}, {"/a\n", "/a\n/b", true}, {"/a", "/a\x00/b", false},
	} {
		if got := Inside(tt.dir, tt.p); got != tt.want {
			t.Errorf("Inside(%q, %q) = %t", tt.dir, tt.p, got)
		}
	}
}

func TestMove(t *testing.T) {
	t.Parallel()
	for _, tt := range [][4]string{
		{"/a/b/c", "/a/b", "/x", "/x/c"}, {"/a/b", "/a/b", "/x", "/x"}, {"/a", "/", "/x", "/x/a"}, {"/", "/", "/x/y", "/x/y"},
		{"/a/b", "/a", "/", "/b"}, {"/a", "/a", "/", "/"},
	} {
		if got := Move(tt[0], tt[1], tt[2]); got != tt[3] {
			t.Errorf("Move(%q, %q, %q) = %q, want %q", tt[0], tt[1], tt[2], got, tt[3])
		}
	}
}

func TestUp(t *testing.T) {
	t.Parallel()
	for p, want := range map[string]string{"/": "/", "/a": "/a /", "/a/b/c": "/a/b/c /a/b /a /"} {
		if got := strings.Join(slices.Collect(Up(p)), " "); got != want {
			t.Errorf("Up(%q) = %s", p, got)
		}
	}
	for p := range Up("/a/b") {
		if p != "/a/b" {
			t.Errorf("%s after the end", p)
		}
		break
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	want := "/ /a /a/b /a/b/c /a/c /a! /a-b /a-b/c /ab /b"
	list := strings.Fields(want)
	slices.Reverse(list)
	slices.SortFunc(list, Compare)
	if got := strings.Join(list, " "); got != want {
		t.Errorf("got %s", got)
	}
	if outer := Outermost([]string{"/a", "/a/b", "/a-b", "/a-b/c", "/b/c", "/b/c/d"}); strings.Join(outer, " ") != "/a /a-b /b/c" {
		t.Errorf("outermost: %q", outer)
	}
	if Outermost(nil) != nil || len(Outermost([]string{"/", "/a"})) != 1 {
		t.Error("outermost")
	}
}

// insideByNames is Inside, name by name.
func insideByNames(dir, p string) bool {
	a, b := split(dir), split(p)
	return len(a) <= len(b) && slices.Equal(a, b[:len(a)])
}

func split(p string) []string {
	return slices.DeleteFunc(strings.Split(p, "/"), func(name string) bool { return name == "" })
}

func FuzzPaths(f *testing.F) {
	for _, seed := range [][3]string{{"/a/b", "/a/b-evil", "/"}, {"/", "/a", "/a/b"}, {"/a", "/a!/b", "/a/b"}, {"/a\xff", "/a\xff/\n", "/a-"}, {"/\x00", "/", "/\x00/a"}} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, a, b, c string) {
		list := []string{path.Clean("/" + a), path.Clean("/" + b), path.Clean("/" + c), path.Clean("/" + a + "/" + b)}
		for _, p := range list {
			for _, q := range list {
				within := Inside(p, q)
				if within != insideByNames(p, q) {
					t.Fatalf("Inside(%q, %q) = %t", p, q, within)
				}
				if within != slices.Contains(slices.Collect(Up(q)), p) {
					t.Fatalf("%q and what is up from %q", p, q)
				}
				if got, want := Compare(p, q), slices.Compare(split(p), split(q)); got != want {
					t.Fatalf("Compare(%q, %q) = %d, want %d", p, q, got, want)
				}
				if within && (Move(Move(q, p, "/x/y"), "/x/y", p) != q || !Inside("/x/y", Move(q, p, "/x/y"))) {
					t.Fatalf("%q of %q moves to %q", q, p, Move(q, p, "/x/y"))
				}
			}
		}
		slices.SortFunc(list, Compare)
		outer := Outermost(list)
		for _, p := range list {
			n := 0
			for _, dir := range outer {
				if Inside(dir, p) {
					n++
				}
			}
			if n != 1 {
				t.Fatalf("%q lies in %d of %q", p, n, outer)
			}
		}
	})
}

func TestIsName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a": true, "Z": true, "0": true, "a-b_c.d": true, "1..": true, strings.Repeat("a", 64): true,
		"": false, strings.Repeat("a", 65): false, ".": false, "..": false, ".a": false, "-a": false, "_a": false, "a/b": false, "a b": false,
		"a\x00": false, "\u00e4": false, "a\n": false,
	} {
		if got := IsName(name); got != want {
			t.Errorf("IsName(%q) = %t", name, got)
		}
	}
}
