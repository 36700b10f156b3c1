package hostpath

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestQuote(t *testing.T) {
	t.Parallel()
	for p, want := range map[string]string{
		"":                 `""`,
		"/home/ü/a b":      `"/home/ü/a b"`,
		`/a"b\c`:           `"/a\"b\\c"`,
		"/a\nsbxhost: ok":  `"/a\nsbxhost: ok"`,
		"/a\x1b[31mred":    `"/a\x1b[31mred"`,
		"/a\u202etxt":      `"/a\u202etxt"`,
		"/a\u2800b":        `"/a\u2800b"`,
		"/a\u200db":        `"/a\u200db"`,
		"/a\xff":           `"/a\xff"`,
		"/a\u0085b\u2028c": `"/a\u0085b\u2028c"`,
	} {
		if got := Quote(p); got != want {
			t.Errorf("%q: %s, want %s", p, got, want)
		}
	}
	long := "/begin" + strings.Repeat("/é", 2000) + "/end"
	if got := Quote(long); len(got) > maxShown+2 || !strings.HasPrefix(got, `"/begin/`) || !strings.HasSuffix(got, `/end"`) || !strings.Contains(got, "...") {
		t.Errorf("%s", got)
	}
	var many []string
	for i := range 30000 {
		many = append(many, fmt.Sprint(i))
	}
	if got := QuoteList(many[:11]); !strings.HasPrefix(got, `"0", "1", `) || !strings.HasSuffix(got, `"9" and 1 more`) {
		t.Errorf("%s", got)
	}
	if got := QuoteList(many); len(got) > 200 || !strings.HasSuffix(got, " and 29990 more") {
		t.Errorf("%s", got)
	}
	if got := QuoteList(many[:2]); got != `"0", "1"` {
		t.Errorf("%s", got)
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"plain \"text\"": "plain \"text\"", "a\nsbxhost: b": "a sbxhost: b", "\x1b[2J\r": "\ufffd[2J\ufffd", "\u202e": "\ufffd", "\xff": "\ufffd",
	} {
		if got := Line(s); got != want {
			t.Errorf("%q: %q", s, got)
		}
	}
	if got := Line(strings.Repeat("é", 100000)); len(got) > maxLine || !utf8.ValidString(got) || strings.ContainsRune(got, unicode.ReplacementChar) {
		t.Errorf("%d bytes: %.20s", len(got), got)
	}
}

// A name cannot imitate what follows names.
func TestShown(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"a/b c": "a/b c", "": `""`, "it's": `"it's"`, "a\nb": `"a\nb"`, "f(x);g": "f(x);g", "harmless (directory)": `"harmless (directory)"`, "x; refused: a socket": `"x; refused: a socket"`,
	} {
		if got := Shown(s); got != want {
			t.Errorf("%q: %s", s, got)
		}
	}
}

func FuzzQuote(f *testing.F) {
	for _, p := range []string{"/a\nb", "/\xff\xfe", strings.Repeat("é", 300), strings.Repeat("\xff", 4096), "\u202e\u2066", strings.Repeat("\U000e0041", 100)} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		got := Quote(p)
		if len(got) > 10*maxShown || !utf8.ValidString(got) || got[0] != '"' || got[len(got)-1] != '"' {
			t.Errorf("%q: %s", p, got)
		}
		if strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q: %q", p, got)
		}
		if line := Line(p); len(line) > 3*maxLine || !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) && r != unicode.ReplacementChar }) {
			t.Errorf("%q: %q", p, line)
		}
	})
}

func TestMostIn(t *testing.T) {
	t.Parallel()
	many := func(format string, n int) (paths []string) {
		for i := range n {
			paths = append(paths, fmt.Sprintf(format, i))
		}
		return paths
	}
	for name, tt := range map[string]struct {
		paths []string
		dir   string
		n     int
	}{
		"none":            {nil, "/", 0},
		"one":             {[]string{"/a/b"}, "/a", 1},
		"in one":          {many("/ws/s/%d", 9), "/ws/s", 9},
		"each in its own": {many("/ws/%d/.env", 9), "/ws", 9},
		"most":            {append(many("/ws/a/b/%d/x/.env", 9), many("/ws/c/%d", 5)...), "/ws/a/b", 9},
		"half":            {append(many("/ws/a/%d", 5), many("/ws/c/%d", 5)...), "/ws", 10},
		"similar names":   {append(many("/ws/a/%d", 3), many("/ws/ab/%d", 4)...), "/ws/ab", 4},
		"everywhere":      {many("/%d", 3), "/", 3},
	} {
		if dir, n := MostIn(tt.paths); dir != tt.dir || n != tt.n {
			t.Errorf("%s: %s, %d; want %s, %d", name, dir, n, tt.dir, tt.n)
		}
	}
}
